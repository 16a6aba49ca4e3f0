package node_test

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
)

// A server that runs no scripts is refused for good, and Check and Admit say why.
func TestAServerWithoutScriptsIsRefused(t *testing.T) {
	for _, off := range []string{"EVALSHA", "EVAL"} {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			n := open(t, startReal(t, "--rename-command", off, "").URL())
			refuses(t, n, node.ErrScripts)
			_, err := operator.Check(t.Context(), n)
			mustFail(t, n, err, node.ErrScripts)
			isPermanent(t, err)
			mustFail(t, n, operator.Admit(t.Context(), n), node.ErrScripts)
		})
	}
}

// Scripts come with the calls that need them.
func TestAServerWithoutSCRIPTIsUsed(t *testing.T) {
	mustGrant(t, do(t, open(t, startReal(t, "--rename-command", "SCRIPT", "").URL()), acquire("k", "o:1")))
}

// So is one that does not know a command which a script calls.
func TestAServerWithoutACommandIsRefused(t *testing.T) {
	n := open(t, startReal(t, "--rename-command", "HSET", "").URL())
	err := do(t, n, acquire("k", "o:1")).Err
	if err == nil {
		t.Fatal("it grants")
	}
	isPermanent(t, err)
	if !strings.Contains(err.Error(), "(HSET)") {
		t.Errorf("it does not name the command: %v", err)
	}
}
