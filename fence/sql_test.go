package fence_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// answer is a row with a token, or an error.
type answer struct {
	seen int64
	err  error
}

func (a answer) Scan(dest ...any) error {
	if a.err == nil {
		*dest[0].(*int64) = a.seen
	}
	return a.err
}

// The statement goes out once, with its arguments in order, unless an argument is invalid. The error of
// the row is wrapped.
func TestStampRow(t *testing.T) {
	broken := errors.New("connection reset")
	for _, c := range []struct {
		resource string
		token    uint64
		answer   answer
		want     error
		calls    int
	}{
		{"account:42", 41, answer{seen: 41}, nil, 1},
		{"account:42", 41, answer{seen: 42}, fence.ErrFenced, 1},
		{"account:42", 41, answer{err: broken}, broken, 1},
		{"account:42", 0, answer{}, fence.ErrInvalid, 0},
		{"account:42", 1 << 53, answer{}, fence.ErrInvalid, 0},
		{"", 41, answer{}, fence.ErrInvalid, 0},
	} {
		calls := 0
		err := fence.StampRow(func(statement string, args ...any) fence.Row {
			calls++
			testkit.Check(t, strings.HasPrefix(statement, "INSERT INTO quorumlock_fences") &&
				slices.Equal(args, []any{c.resource, int64(c.token)}), "%s with %v", statement, args)
			return c.answer
		}, c.resource, c.token)
		testkit.Check(t, errors.Is(err, c.want) && calls == c.calls,
			"%q, token %d: %v after %d calls, want %v after %d", c.resource, c.token, err, calls, c.want, c.calls)
	}
}
