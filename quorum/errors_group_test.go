package quorum

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/node"
)

// What several nodes have in common is said once, and what only Redis's scripts know is left out.
func TestErrorsSayOnceWhatNodesHaveInCommon(t *testing.T) {
	differs := &node.Error{Node: "a", Op: "acquire", Err: ErrMembership}
	other := &node.Error{Node: "b", Op: "acquire", Err: redis.Error(
		"NOPERM this user has no permissions script: 0123456789abcdef0123456789abcdef01234567, on @user_script:12.")}
	again := &node.Error{Node: "c", Op: "acquire", Err: ErrMembership}
	e := &Error{Op: "lock", Need: 2, Unknown: 3, causes: []error{ErrNotAcquired, ErrUnavailable},
		Nodes: multierror.Append(nil, differs, other, again)}
	want := "quorumlock: lock: not acquired: masters do not accept this client's list: will not pass by itself (0 granted of 2 needed, 2 with another list, 1 unknown): " +
		"nodes a, c: acquire: the lists of masters differ; node b: acquire: NOPERM this user has no permissions"
	if e.Error() != want {
		t.Errorf("it says\n%s, want\n%s", e, want)
	}
	if count := strings.Count(e.Error(), "lists of masters"); count != 1 {
		t.Errorf("said %d times", count)
	}
}
