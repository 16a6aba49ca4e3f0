package words

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

func TestGrouped(t *testing.T) {
	var errs []error
	for _, name := range []string{"a", "b", "c"} {
		errs = append(errs, &node.Error{Node: name, Op: "acquire", Err: node.ErrClosed})
	}
	errs = append(errs, errors.New("of no node"), &node.Error{Node: "d", Op: "look", Err: node.ErrClosed})
	testkit.Equal(t, Grouped(errs), "nodes a, b, c: acquire: closed; of no node; node d: look: closed", "it says")
}
