package operator

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// A marker with another list is a reason why its node does not accept a client; its own list, or no marker, is none.
func TestOtherList(t *testing.T) {
	own := scripts.NewList("a", "b", "c")
	marker := scripts.Marker{Process: scripts.Process{Run: "r", Member: "a"}, Members: own, Next: scripts.NewList()}.String()
	for what, err := range map[string]error{"its own list": otherList(own, marker), "no marker": otherList(own, "?"), "no list": otherList(nil, marker)} {
		testkit.Check(t, err == nil, "%s: %v", what, err)
	}
	testkit.Is(t, otherList(scripts.NewList("a", "b", "d"), marker), node.ErrMembership, "another list")
}
