package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/node"
)

// Masters that answered with another list are not called unknown, nor unavailable if they are the whole
// reason.
func TestErrorOfMastersWithAnotherList(t *testing.T) {
	other := func(name string) error {
		return &node.Error{Node: name, Op: "acquire", Err: fmt.Errorf("%w: {a, b}", ErrMembership)}
	}
	down := &node.Error{Node: "c", Op: "connect", Err: node.ErrDown}
	for want, nodes := range map[string][]error{
		"not acquired: masters do not accept this client's list: will not pass by itself (0 granted of 2 needed, 2 with another list, 1 unknown)": {other("a"), other("b"), down},
		"not acquired: nodes unavailable (0 granted of 2 needed, 1 with another list, 2 unknown)":                                                 {other("a"), down},
		"not acquired: nodes unavailable (0 granted of 2 needed, 3 unknown)":                                                                      {down},
	} {
		err := &Error{Op: "lock", Need: 2, Unknown: 3, causes: []error{ErrNotAcquired, ErrUnavailable}, Nodes: &multierror.Error{Errors: nodes}}
		if got := err.Error(); !strings.Contains(got, want) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
