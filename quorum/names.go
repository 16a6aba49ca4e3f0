package quorum

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/scripts"
)

// wantedNames are what a call of Lock wants.
type wantedNames struct {
	key    queue.Key
	target queue.Target

	// Room for the usual number of names.
	one    [1]string
	oneKey [1]scripts.Name
}

var _ queue.Wanted = (*wantedNames)(nil)

// newCall returns a call that wants the names.
func (l *Locker) newCall(names []string) *call {
	all := new(struct { // one allocation for both
		call
		wantedNames
	})
	c, n := &all.call, &all.wantedNames
	c.Locker, c.wants = l, n
	names = append(n.one[:0], names...) // the caller's may change
	n.key = queue.NewKey(names, l.set.isReader())
	n.target = queue.Target{Names: names, Keys: scripts.NewNames(n.oneKey[:0], names), Hash: n.key.Hash(), First: -1}
	return c
}

func (n *wantedNames) Names() []string { return n.target.Names }
func (n *wantedNames) Key() queue.Key  { return n.key }
func (n *wantedNames) Slots() int      { return 0 }

func (n *wantedNames) Channels() []string {
	all := make([]string, len(n.target.Keys))
	for i, key := range n.target.Keys {
		all[i] = key.Channel()
	}
	return all
}

func (n *wantedNames) Attempt(ctx context.Context, by queue.Attempts, due queue.Due) queue.Result {
	r := by.Attempt(ctx, n.target, due.Approach)
	r.MayTry = r.Held && by.Tries() != nil && !by.IsHeld(r)
	return r
}

const maxNameLen = 4096

// checkNames returns why the names cannot be locked, or nil.
func checkNames(op string, names []string) error {
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > scripts.MaxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), scripts.MaxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case scripts.Reserved(name) != "":
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys",
				i+1, scripts.Reserved(name))
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}
