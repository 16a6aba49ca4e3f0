package engine

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

const (
	// Renewals that are due together are spread out: one per renewalGap after the first renewalBurst. So other calls
	// wait for few renewals.
	renewalGap   = renewalBurst / batchSize
	renewalBurst = 2 * time.Millisecond

	// batchSize and batchBytes bound how much one call renews, and so how long it occupies the server.
	// The names of one lock are not divided.
	batchSize  = 32       // locks
	batchBytes = 64 << 10 // of names, each with perName for its other arguments
	perName    = 128
)

// postponeLocked reports whether too many renewals are due at now. Then the schedule handles the hold
// later, but long before its deadline. A hold is postponed at most once per renewal.
func (h *Hold) postponeLocked(now clock.Instant) bool {
	e := h.engine
	if h.postponed || !h.lease.MayWait(now) {
		h.postponed = false
		return false
	}
	e.lastRenewal = max(e.lastRenewal, now).Add(renewalGap)
	if e.lastRenewal.Sub(now) <= renewalBurst {
		return false
	}
	h.lease.Postpone(min(e.lastRenewal, now.Add(h.lease.ContextsEnd().Sub(now)/4)), renewalBurst)
	h.postponed = true
	return true
}

// renewDue handles the holds that are due (schedule.Due): it ends those whose deadline has passed,
// releases those that were unlocked and whose min hold is over, and renews the others.
func (e *Engine) renewDue(now clock.Instant, due []*schedule.Entry[*Hold]) (after func()) {
	// All contexts that must end begin to end before anything is sent: past the deadline another owner may be granted
	// the lock.
	var kept []*Hold
	for _, entry := range due {
		if h := entry.Owner; h.due(now) {
			kept = append(kept, h)
		}
	}
	batches := &renewalBatches{engine: e, sent: now, open: map[batchKey]*renewalBatch{}}
	for _, h := range kept {
		h.renew(now, batches)
	}
	for _, b := range batches.all {
		b.err = b.pipe.Start(scripts.Renew(b.requests[0].hold.list, b.lease, b.locks), nil, b)
	}
	if len(kept) > 0 {
		e.introduction.Keep(now)
	}
	return func() {
		for _, b := range batches.all {
			if b.err != nil {
				b.Done(pipeline.Result{Err: b.err})
			}
		}
	}
}

// due handles a hold that is due. It reports whether the hold is to be renewed now.
func (h *Hold) due(now clock.Instant) (goesOn bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.postponeLocked(now) {
		h.entry.At, h.entry.Early = h.lease.Next()
		return false
	}
	var room [8]lease.Command
	goesOn, commands := h.lease.Due(now, room[:0])
	h.entry.Over = !goesOn
	h.entry.At, h.entry.Early = h.lease.Next()
	if h.lease.Phase() == lease.Released && len(commands) > 0 { // it lingered, and Unlock may be ending its contexts yet
		releases := slices.Clone(commands)
		h.engine.background.start(func() {
			h.endContexts()
			h.carryOut(releases)
		})
		return false
	}
	h.carryOutLocked(commands, nil)
	return goesOn
}

// renew adds the hold's renewals to batches, and sends its repairs at once.
func (h *Hold) renew(now clock.Instant, to *renewalBatches) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lease.Kept() || h.terms.Fixed {
		return
	}
	h.terms.Events.Renewing(h, h.lease.Deadline().Sub(now))
	var room [8]lease.Command
	commands := h.lease.Renew(now, room[:0])
	for i, c := range commands {
		if c.Do == lease.Renew {
			to.add(h, c)
		} else {
			h.carryOutLocked(commands[i:i+1:i+1], nil)
		}
	}
}

// renewalBatches gathers the renewals that are due together into as few calls per connection as the
// bounds allow.
type renewalBatches struct {
	engine *Engine
	sent   clock.Instant              // read before anything is sent
	open   map[batchKey]*renewalBatch // the batch to add to
	all    []*renewalBatch            // in the order they are sent
}

// batchKey is what the locks of a call have in common.
type batchKey struct {
	pipe  *pipeline.Pipe
	lease scripts.Millis
}

// renewalBatch is the locks that one call renews on one node. It receives the reply.
type renewalBatch struct {
	batchKey
	engine   *Engine
	sent     clock.Instant
	requests []request
	locks    []scripts.Renewal // for each of the requests
	bytes    int
	err      error // why the batch could not be sent
}

// add adds a renewal of the hold, whose mutex is locked.
func (bs *renewalBatches) add(h *Hold, c lease.Command) {
	bytes := 0
	for _, name := range h.names {
		bytes += len(name.String()) + perName
	}
	b := bs.batchFor(h, c.Master, bytes)
	b.requests, b.locks, b.bytes = append(b.requests, request{hold: h, command: c}), append(b.locks, h.renewal()), b.bytes+bytes
}

// batchFor returns the batch for a renewal whose names have that many bytes.
func (bs *renewalBatches) batchFor(h *Hold, node, bytes int) *renewalBatch {
	key, alone := batchKey{h.pipe(node), h.terms.Millis}, h.members[node].alone
	if b := bs.open[key]; b != nil && len(b.requests) < batchSize && b.bytes+bytes <= batchBytes && !alone {
		return b
	}
	b := &renewalBatch{batchKey: key, engine: bs.engine, sent: bs.sent}
	bs.all = append(bs.all, b)
	if !alone {
		bs.open[key] = b
	}
	return b
}

// Done receives a node's reply to the batch. If the server has refused it, perhaps only for one lock's key, each lock is
// renewed alone from then on.
func (b *renewalBatch) Done(r pipeline.Result) {
	b.noteReply(r)
	node := b.requests[0].command.Master
	switch refusal := r.Reply.NotAccepted; {
	case refusal != nil: // even if the node no longer has any of the locks
		b.engine.Roster.RenewalRefused(node, refusal)
	case r.Err == nil:
		b.engine.Roster.NoteAccepted(node, b.sent)
	}
	for i, renewal := range b.requests {
		if r.RefusesKeys || r.Err == nil {
			renewal.hold.setAlone(node, r.RefusesKeys)
		}
		reply, err := renewal.hold.replyOf(renewal.command, r, i)
		renewal.hold.takeReply(renewal.command, reply, err)
	}
}

// Renewals counts the results in one node's reply to the renewals of some locks.
type Renewals struct {
	Renewed   int
	Forgotten int   // the key was gone
	Taken     int   // the key was another owner's
	Failed    int   // an error, or no reply
	Err       error // a *node.Error if the call failed
}

// noteReply reports the node's reply, to each Events once.
func (b *renewalBatch) noteReply(r pipeline.Result) {
	type told struct {
		events Events
		of     Renewals
	}
	all := make([]told, 0, 1)
	for i, renewal := range b.requests {
		events := renewal.hold.terms.Events
		at := slices.IndexFunc(all, func(t told) bool { return t.events == events })
		if at < 0 {
			at = len(all)
			all = append(all, told{events, Renewals{Err: r.Err}})
		}
		all[at].of.add(r, i)
	}
	for _, t := range all {
		t.events.Renewed(b.requests[0].command.Master, t.of)
	}
}

// add counts the answer for the i-th lock of a batch.
func (n *Renewals) add(r pipeline.Result, i int) {
	switch {
	case r.Err != nil:
		n.Failed++
	case r.Reply.Renew[i] == scripts.Kept:
		n.Renewed++
	case r.Reply.Renew[i] == scripts.Gone:
		n.Forgotten++
	case r.Reply.Renew[i] == scripts.Taken:
		n.Taken++
	default:
		n.Failed++
	}
}

func (h *Hold) setAlone(node int, alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[node].alone = alone
}
