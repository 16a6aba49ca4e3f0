package quorum

import (
	"context"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/queue"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// wanted is what a call wants: all of the names, or some slots of a semaphore. It is made once, where the call comes in. An
// attempt is for a [target], which has the slots that it asks for.
type wanted struct {
	names []string   // of the call: of a semaphore its name
	slots *slotsCall // nil for names
	key   queue.Key  // of the queue in which the call waits
}

func (l *Locker) wants(names []string) wanted {
	return wanted{names: names, key: queue.NewKey(names, l.set.isReader())}
}

// count returns how many slots the call wants, 0 for names.
func (w wanted) count() int {
	if w.slots == nil {
		return 0
	}
	return w.slots.want
}

// channels returns the names whose channels the call waits for.
func (w wanted) channels() []string {
	if w.slots == nil {
		return w.names
	}
	return []string{scripts.SlotsName(w.names[0])}
}

// attempt makes one attempt, or for slots a turn of attempts. published is the node that published the
// last release that was heard since the attempt before; −1 for none.
func (w wanted) attempt(
	ctx context.Context, c *core, set *settings, approach waiting.Approach, published int,
) (*Lock, *attemptResult) {
	if w.slots == nil {
		return c.attempt(ctx, set, target{names: w.names}, approach)
	}
	if published >= 0 {
		w.slots.asks = published
	}
	return w.slots.attempt(ctx, set, approach, published >= 0)
}

const (
	maxNameLen = 4096
	maxNames   = 64
)

// checkNames returns why the names cannot be locked, or nil.
func checkNames(op string, names []string) error {
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > maxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), maxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case strings.HasPrefix(name, scripts.Prefix):
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys",
				i+1, scripts.Prefix)
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}
