package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/schedule"
	"github.com/quorumlock/quorumlock/scripts"
)

// Package quorum refuses more.
const (
	longest   = 4096
	mostNames = 64
)

// batches is calls that renew locks at this time.
func (e *Engine) batches() *renewalBatches {
	return &renewalBatches{engine: e, sent: e.Clock.Now(), open: map[batchKey]*renewalBatch{}}
}

// A call renews at most batchSize locks and batchBytes of names, so that it keeps the server busy
// only for a moment. A single lock may have more.
func TestRenewalsAreBoundedByBytes(t *testing.T) {
	long := strings.Repeat("x", longest-8)
	for what, c := range map[string]struct {
		locks, names int
		name         string
		most         int // locks in a call
	}{
		"short names": {300, 1, "", batchSize},
		"long names":  {300, 1, long, batchBytes / longest},
		"many names":  {40, mostNames, "", batchBytes / (mostNames * perName)},
		"both":        {5, mostNames, long, 1},
	} {
		t.Run(what, func(t *testing.T) {
			a, _ := heldHold(t, time.Second)
			one := a.hold
			r, total := one.engine.batches(), 0
			for i := range c.locks {
				var names []string
				for k := range c.names {
					names = append(names, fmt.Sprint(c.name, i, " ", k))
				}
				h := one.engine.newHold(one.terms, names...)
				for i := range h.members {
					r.add(h, lease.Command{Do: lease.Renew, Master: i})
				}
			}
			largest := 0
			for _, b := range r.all {
				total += len(b.requests)
				largest = max(largest, len(b.requests))
				testkit.Check(t, len(b.requests) == len(b.locks), "%d requests for %d locks", len(b.requests), len(b.locks))
			}
			testkit.Check(t, total == 3*c.locks && largest <= c.most && largest >= c.most/2,
				"%d renewals of %d, at most %d in a call, want %d", total, 3*c.locks, largest, c.most)
		})
	}
}

// A lock whose batch was refused travels alone until a renewal of its own succeeds, and with others from then on.
func TestRenewedAloneUntilThatSucceeds(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	m := &h.members[0]
	fake.Advance(time.Millisecond)
	isRefused(t, h.engine)
	alone := func(reply pipeline.Result) bool {
		b := &renewalBatch{engine: h.engine, sent: fake.Now(), requests: []request{{hold: h, command: lease.Command{Do: lease.Renew}}}, locks: []scripts.Renewal{{Names: h.names, Owner: h.owner}}}
		b.Done(reply)
		return m.alone
	}
	testkit.Check(t, alone(pipeline.Result{Err: errors.New("refused"), Sent: true, RefusesKeys: true}),
		"it travels with others, and is refused")
	renewed := pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{scripts.Kept}}, RunID: "one", Sent: true}
	testkit.Check(t, !alone(renewed), "it travels alone for ever")
	testkit.Check(t, h.engine.Roster.Accepts(0), "the node counts as one that refuses the list, and has renewed")
}

// It does so next to a call that others share.
func TestALockThatIsRenewedAloneIsInNoOthersCall(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	e := a.hold.engine
	r := e.batches()
	for _, alone := range []bool{false, true, false} {
		h := e.newHold(a.hold.terms, "a")
		h.members[0].alone = alone
		r.add(h, lease.Command{Do: lease.Renew})
	}
	testkit.Check(t, len(r.all) == 2 && len(r.all[0].requests) == 2, "%d calls, the first for %d", len(r.all), len(r.all[0].requests))
}

// A call has one lease: it would shorten another's, or let it go on after its bound.
func TestLocksWithDifferentLeasesShareNoCall(t *testing.T) {
	a, _ := heldHold(t, time.Second)
	r, longer := a.hold.engine.batches(), *a.hold.terms
	longer.Millis = scripts.ToMillis(time.Minute)
	for _, terms := range []*Terms{a.hold.terms, &longer, a.hold.terms} {
		r.add(a.hold.engine.newHold(terms, "a"), lease.Command{Do: lease.Renew})
	}
	testkit.Check(t, len(r.all) == 2 && len(r.all[0].requests) == 2 && r.all[0].lease == a.hold.terms.Millis && r.all[1].lease == longer.Millis,
		"%d calls, the first for %d, with leases of %v and %v ms", len(r.all), len(r.all[0].requests), r.all[0].lease, r.all[1].lease)
}

// For a lock that is not renewed nothing is reported or sent: its lease is fixed, or it has ended since it was due.
func TestALockThatIsNotRenewed(t *testing.T) {
	for what, change := range map[string]func(h *Hold){
		"fixed": func(h *Hold) { h.terms.Fixed = true },
		"ended": func(h *Hold) { h.First().HandOver() },
	} {
		a, fake := heldHold(t, time.Second)
		heeds := new(heeding)
		a.hold.terms.Events = heeds
		change(a.hold)
		r := a.hold.engine.batches()
		a.hold.renew(fake.Now(), r)
		testkit.Check(t, heeds.renewing == 0 && len(r.all) == 0, "%s: told %d times, %d calls", what, heeds.renewing, len(r.all))
	}
}

// A node that refuses this client's list does not accept it, even if it has none of the locks.
func TestARenewalThatIsRefusedForTheListAlone(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	h := a.hold
	fake.Advance(time.Millisecond)
	refusal := isRefused(t, h.engine)
	fake.Advance(time.Millisecond)
	b := &renewalBatch{engine: h.engine, sent: fake.Now(), requests: []request{{hold: h, command: lease.Command{Do: lease.Renew}}}}
	b.Done(pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{scripts.Gone}, NotAccepted: refusal}, RunID: "one", Sent: true})
	testkit.Check(t, !h.engine.Roster.Accepts(0), "the node counts as one that accepts it")
}

// A node's reply is reported to each Events once, with all of their locks.
func TestARenewalIsToldOnceToEachEvents(t *testing.T) {
	one, other := new(heeding), new(heeding)
	b := new(renewalBatch)
	for _, events := range []Events{one, other, one} {
		a, _ := heldHold(t, time.Second)
		a.hold.terms.Events = events
		b.requests = append(b.requests, request{hold: a.hold})
	}
	b.noteReply(pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{scripts.Kept, scripts.Taken, scripts.Gone}}})
	testkit.Check(t, slices.Equal(one.renewed, []Renewals{{Renewed: 1, Forgotten: 1}}), "%+v", one.renewed)
	testkit.Check(t, slices.Equal(other.renewed, []Renewals{{Taken: 1}}), "%+v", other.renewed)

	refused := errors.New("refused")
	b.noteReply(pipeline.Result{Reply: scripts.Reply{Renew: []scripts.Renewed{scripts.NotRenewed, scripts.Kept, scripts.NotRaised}}})
	b.noteReply(pipeline.Result{Err: refused})
	testkit.Check(t, slices.Equal(one.renewed[1:], []Renewals{{Failed: 2}, {Failed: 2, Err: refused}}), "%+v", one.renewed)
}

// Locks whose renewals are due at once are renewed one batch after the other from then on, each at most a quarter of the time to its
// deadline late. An unlocked lock, or one with a fixed lease, is not put off.
func TestRenewalsThatFallTogetherAreSpread(t *testing.T) {
	a, fake := heldHold(t, time.Second)
	one := a.hold
	now := fake.Now()
	one.engine.introduction = holders.NewIntroduction(nil, "", scripts.Identity{}, one.engine.Roster.List, time.Second)
	fixed, kept := *one.terms, *one.terms
	fixed.Fixed, kept.MinHold = true, time.Second
	holds := func(n int, terms *Terms, lasts time.Duration) (all []*Hold) {
		of := *terms
		of.Lease = lasts
		for range n {
			h := one.engine.held(t, &of, "one", "two", "three")
			h.lease.Renew(now, nil) // and it is not answered, so nothing is sent
			all = append(all, h)
		}
		return all
	}
	handle := func(at clock.Instant, all ...*Hold) {
		var due []*schedule.Entry[*Hold]
		for _, h := range all {
			due = append(due, &h.entry)
		}
		one.engine.renewDue(at, due)
	}

	all := holds(10*batchSize, one.terms, time.Second)
	handle(now, all...)
	inBurst := map[time.Duration]int{}
	for _, h := range all {
		if h.postponed {
			inBurst[h.entry.At.Sub(now)/renewalBurst]++
		} else {
			inBurst[0]++
		}
	}
	for burst := range time.Duration(10) {
		n := inBurst[burst]
		testkit.Check(t, n >= batchSize/2 && n <= batchSize, "%d renewals in burst %d, want %d", n, burst, batchSize)
	}
	last := all[len(all)-1]
	at := last.entry.At
	one.engine.lastRenewal = at.Add(time.Second)
	handle(at, last)
	testkit.Check(t, last.entry.At == at.Add(last.terms.Lease/3) && !last.postponed, "a renewal is put off twice")

	one.engine.lastRenewal = now.Add(time.Second)
	urgent := holds(1, one.terms, 4*time.Millisecond)[0]
	handle(now, urgent)
	testkit.Check(t, !urgent.postponed || urgent.entry.At.Sub(now) <= time.Millisecond,
		"a lock whose deadline is near is renewed after %v", urgent.entry.At.Sub(now))
	lingers := holds(1, &kept, time.Second)[0]
	lingers.lease.Linger(now, nil)
	for what, h := range map[string]*Hold{"a fixed lease": holds(1, &fixed, time.Second)[0], "a lingering one": lingers} {
		handle(now, h)
		testkit.Check(t, !h.postponed, "%s is put off", what)
	}
}

// granting is the result of a granted acquire.
func granting(runID string, token uint64) pipeline.Result {
	reply := scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Granted, Token: token}}
	return pipeline.Result{Reply: reply, RunID: runID, Sent: true}
}

// A batch that a server has refused, perhaps only for one lock's key, has failed, and its locks travel alone from then on.
// If it refuses every write, they would be refused alone, too.
func TestABatchThatIsRefused(t *testing.T) {
	for refusal, want := range map[redis.Error]bool{"NOPERM no": true, "OOM command not allowed when used memory > 'maxmemory'.": false} {
		one, fake := heldHold(t, time.Second)
		two, _ := heldHold(t, time.Second)
		two.hold.engine = one.hold.engine
		heeds := new(heeding)
		one.hold.terms.Events, two.hold.terms.Events = heeds, heeds
		b := &renewalBatch{engine: one.hold.engine}
		for _, h := range []*Hold{one.hold, two.hold} {
			b.requests = append(b.requests, request{hold: h, command: h.lease.Renew(fake.Now(), nil)[0]})
		}
		b.Done(pipeline.Result{Err: &node.Error{Err: refusal}, Sent: true, RefusesKeys: redisconn.RefusesKeys(refusal)})
		for _, r := range b.requests {
			m := &r.hold.members[0]
			testkit.Check(t, m.alone == want && errors.Is(m.err, refusal), "%v: renewed alone: %v, error: %v", refusal, m.alone, m.err)
		}
		testkit.Check(t, len(heeds.renewed) == 1 && heeds.renewed[0].Failed == 2, "%v: %+v", refusal, heeds.renewed)
	}
}
