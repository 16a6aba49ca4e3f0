package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The end of a lock, by what happens first.
func TestEnds(t *testing.T) {
	due := func(b *bench) { _, b.sent = b.Due(b.now, nil) }
	for what, c := range map[string]struct {
		terms Terms
		after time.Duration
		event func(b *bench)
		want  string
		phase Phase
	}{
		"the deadline":          {Terms{}, time.Second, due, fmt.Sprint("End ", NotConfirmed), Expired},
		"before the max hold":   {Terms{MaxHold: time.Hour}, time.Second, due, fmt.Sprint("End ", NotConfirmed), Expired},
		"a fixed lease is over": {Terms{Fixed: true}, time.Second, due, fmt.Sprint("End ", LeaseOver), Expired},
		"the max hold":          {Terms{MaxHold: 500 * time.Millisecond}, 500 * time.Millisecond, due, fmt.Sprint("End ", MaxHoldOver), Expired},
		"the contexts":          {Terms{StopBefore: 300 * time.Millisecond}, 700 * time.Millisecond, due, "Stop 0", Held},
		"the contexts, fixed":   {Terms{StopBefore: 300 * time.Millisecond, Fixed: true}, 700 * time.Millisecond, due, "Stop 0", Held},
		"a deadline past both":  {Terms{StopBefore: 300 * time.Millisecond}, time.Second, due, fmt.Sprint("End ", NotConfirmed), Expired},
		"unlocked":              {Terms{}, 0, func(b *bench) { b.sent = b.Unlock(b.now, nil) }, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"unlocked too late":     {Terms{}, time.Second, func(b *bench) { b.sent = b.Unlock(b.now, nil) }, fmt.Sprint("End ", DeadlineFound), Expired},
		"closed":                {Terms{}, 0, func(b *bench) { b.sent = b.Orphan(nil) }, fmt.Sprint("End ", Closed), Orphaned},
		"closed, then unlocked": {Terms{}, 0, func(b *bench) { b.Orphan(nil); b.sent = b.Unlock(b.now, nil) }, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"interrupted":           {Terms{}, 0, interrupt, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"unlocked while it submits": {Terms{}, 0, func(b *bench) {
			b.answer(b.Enter(b.now, nil)[2], Reply{Is: NotAccepted})
			b.want("Submit 2")
			b.sent = b.Unlock(b.now, nil)
		}, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"closed, interrupted":    {Terms{}, 0, func(b *bench) { b.Orphan(nil); interrupt(b) }, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"lingers, interrupted":   {Terms{MinHold: time.Second}, 0, func(b *bench) { linger(b); interrupt(b) }, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"lost, interrupted":      {Terms{}, time.Second, func(b *bench) { due(b); b.sent = append(b.sent, b.Interrupt(nil)...) }, fmt.Sprint("End ", NotConfirmed), Expired},
		"lingers":                {Terms{MinHold: time.Second}, 0, linger, fmt.Sprint("End ", Unlocked), Lingering},
		"has no min hold":        {Terms{}, 0, linger, "", Held},
		"lingers no longer":      {Terms{MinHold: 500 * time.Millisecond}, 500 * time.Millisecond, linger, "", Held},
		"closed, then lingers":   {Terms{MinHold: time.Second}, 0, func(b *bench) { b.Orphan(nil); linger(b) }, "", Released},
		"lingers, with contexts": {Terms{MinHold: time.Second, StopBefore: 300 * time.Millisecond}, 0, func(b *bench) { linger(b); b.now = b.now.Add(700 * time.Millisecond); due(b) }, "", Lingering},
		"lingers to the end":     {Terms{MinHold: 500 * time.Millisecond}, 0, func(b *bench) { linger(b); b.now = b.now.Add(500 * time.Millisecond); due(b) }, "Release 0 to 0, Release 1 to 0, Release 2 to 0", Released},
		"handed over":            {Terms{}, 0, handOver, fmt.Sprint("End ", HandedOver), Released},
		"lingers, then too late": {Terms{MinHold: time.Hour}, 0, func(b *bench) { linger(b); b.now = b.now.Add(time.Second); due(b) }, "Release 0 to 0, Release 1 to 0, Release 2 to 0", Released},
	} {
		t.Run(what, func(t *testing.T) {
			b := held(t, c.terms)
			b.now = b.now.Add(c.after)
			c.event(b)
			b.want(c.want)
			testkit.Check(t, b.Phase() == c.phase && b.IsDone() == (c.phase == Expired || c.phase == Released),
				"phase %d, want %d; it is done: %v", b.Phase(), c.phase, b.IsDone())
			testkit.Check(t, c.phase != Expired || b.Cause() == b.sent[0].Cause, "cause %d", b.Cause())
		})
	}
}

func interrupt(b *bench) { b.sent = b.Interrupt(nil) }

func handOver(b *bench) { b.sent = b.HandOver(nil) }

func linger(b *bench) { _, b.sent = b.Linger(b.now, nil) }

// When Due is called next. A lock is renewed after a third of its lease, and after a twelfth more if the renewal fell short.
func TestWhenALockIsDue(t *testing.T) {
	const third, twelfth, ms = time.Second / 3, time.Second / 12, time.Millisecond
	isRefused := func(b *bench) { b.answer(b.Enter(b.now, nil)[2], Reply{Is: Refused}) }
	isRepaired := func(b *bench) {
		isRefused(b)
		b.now = b.now.Add(third)
		b.Due(b.now, nil)
		b.answer(b.Enter(b.now, nil)[2], Reply{Is: Granted, Process: "three"})
	}
	lingersOn := func(b *bench) { linger(b); b.Due(b.now, nil) }
	renewed := func(replies ...Answer) func(b *bench) { // by master
		return func(b *bench) {
			b.now = b.now.Add(third)
			b.Due(b.now, nil)
			renewals := b.Renew(b.now, nil)
			for i, is := range replies {
				if is != Unanswered {
					b.answer(renewals[i], Reply{Is: is, Process: processes[i]})
				}
			}
		}
	}
	for what, c := range map[string]struct {
		terms Terms
		event func(b *bench)
		want  time.Duration
	}{
		"it is fixed":                            {Terms{Fixed: true, MaxHold: 900 * ms}, func(*bench) {}, 900 * ms},
		"it is fixed, and a master refuses":      {Terms{Fixed: true, MaxHold: 900 * ms}, isRefused, 900 * ms},
		"a master refuses, then grants":          {Terms{}, isRepaired, 2 * third},
		"a master refuses":                       {Terms{}, isRefused, twelfth},
		"a master that never granted has it not": {Terms{}, func(b *bench) { b.answer(b.Extend(b.now, time.Second, nil)[2], Reply{Is: Gone}) }, third},
		"it lingers":                             {Terms{MinHold: 200 * ms}, linger, 200 * ms},
		"it lingers until the next renewal":      {Terms{MinHold: 200 * ms}, lingersOn, 200 * ms},
		"it lingers past the next renewal":       {Terms{MinHold: 900 * ms}, lingersOn, third},
		"a quorum has renewed it":                {Terms{}, renewed(Kept, Kept), 2 * third},
		"a quorum may still renew it":            {Terms{}, renewed(Unanswered, Unanswered, Granted), 2 * third},
		"a quorum may still renew it, one fails": {Terms{}, renewed(NotRenewed, Kept), 2 * third},
		"too few may still renew it":             {Terms{}, renewed(NotRenewed, NotRenewed), third + twelfth},
		"too few have, and all have it so long":  {Terms{MaxHold: 900 * ms}, renewed(NotRenewed, NotRenewed), 2 * third},
		"all have renewed it for its time":       {Terms{MaxHold: 900 * ms}, renewed(Kept, Kept, Granted), 2 * third},
		"a repair was refused":                   {Terms{}, renewed(Kept, Kept, Refused), third + twelfth},
		"a repair is on its way":                 {Terms{}, func(b *bench) { isRefused(b); renewed(Kept, Kept)(b) }, 2 * third},
		"a repair met a quarantine":              {Terms{}, renewed(Kept, Kept, Quarantined), 2 * third},
	} {
		t.Run(what, func(t *testing.T) {
			b := held(t, c.terms)
			c.event(b)
			at, _ := b.Next()
			testkit.Check(t, at == start.Add(c.want), "it is due after %v, want %v", at.Sub(start), c.want)
		})
	}
}

// Only the renewal of a held lock that goes on may wait.
func TestWhichRenewalMayWait(t *testing.T) {
	stops := Terms{StopBefore: 300 * time.Millisecond, MinHold: time.Second}
	b := held(t, stops)
	testkit.Check(t, b.MayWait(b.now) && !b.MayWait(b.ContextsEnd()), "it may wait until the contexts end, and no longer")
	lingering, fixed := held(t, stops), held(t, Terms{Fixed: true})
	linger(lingering)
	for i, b := range []*bench{lingering, fixed} {
		testkit.Check(t, !b.MayWait(b.now), "renewal %d may wait", i)
	}
}

// A master that has not replied to a renewal or a repair gets no second one, even if it replies to other requests.
func TestOneRenewalAtATime(t *testing.T) {
	b := held(t, Terms{})
	b.Renew(b.now, nil)
	b.answer(b.Extend(b.now, time.Second, nil)[0], Reply{Is: Kept, Process: "one"})
	b.answer(b.Enter(b.now, nil)[2], Reply{Is: Failed})
	b.does(b.Renew(b.now, nil), "")
}

// A lock that is unlocked or fixed is not renewed, and one that is unlocked is not lost.
func TestNoRenewal(t *testing.T) {
	b := held(t, Terms{Fixed: true})
	b.does(b.Renew(b.now, nil), "")
	b = held(t, Terms{})
	b.Unlock(b.now, nil)
	b.does(b.Renew(b.now, nil), "")
	goesOn, sent := b.Due(b.Lease.Deadline(), nil)
	b.sent = sent
	testkit.Check(t, !goesOn, "it goes on")
	b.want("")
}

// A reply that comes after that to a longer request shortens no lease.
func TestNoReplyShortensALease(t *testing.T) {
	b := held(t, Terms{})
	renewals := b.Renew(b.now, nil)
	for i, c := range b.Extend(b.now, time.Minute, nil)[:2] {
		b.answer(c, Reply{Is: Kept, Process: processes[i]})
	}
	until := b.Lease.Deadline()
	for i, c := range renewals[:2] {
		b.answer(c, Reply{Is: Kept, Process: processes[i]})
	}
	end := b.Lease.Deadline()
	testkit.Check(t, end == until && end >= start.Add(30*time.Second), "it ends %v after the start, then %v", until.Sub(start), end.Sub(start))
}

// Re-entry prolongs a lock, but not a fixed one.
func TestReentryProlongsNoFixedLease(t *testing.T) {
	for _, isFixed := range []bool{false, true} {
		b := held(t, Terms{Fixed: isFixed})
		want := time.Second
		if isFixed {
			want = b.Lease.Deadline().Sub(b.now)
		}
		for _, c := range b.Enter(b.now, nil) {
			testkit.Check(t, c.Lease == want,
				"fixed %v: master %d is asked for %v, want %v", isFixed, c.Master, c.Lease, want)
		}
	}
}

// A max hold ends a lock if its leases last longer.
func TestWhatTheMaxHoldEnds(t *testing.T) {
	for maxHold, want := range map[time.Duration]bool{0: false, 500 * time.Millisecond: true, time.Hour: false} {
		if b := held(t, Terms{MaxHold: maxHold}); b.EndedByMaxHold() != want {
			t.Errorf("a max hold of %v ends it: %v", maxHold, !want)
		} else if b.Orphan(nil); b.EndedByMaxHold() {
			t.Errorf("a max hold of %v ends a lock that was closed", maxHold)
		}
	}
}

// A renewal that is confirmed after the contexts have ended moves the deadline, and brings no context back.
func TestALateRenewalBringsNoContextBack(t *testing.T) {
	b := held(t, Terms{StopBefore: 300 * time.Millisecond})
	at, _ := b.Next()
	testkit.Equal(t, at.Sub(start), time.Second/3, "it is due")
	renewals := b.Renew(b.now, nil)
	b.now = start.Add(700 * time.Millisecond)
	for range 2 {
		goesOn, _ := b.Due(b.now, nil)
		end := b.Lease.Deadline()
		testkit.Check(t, goesOn && b.Stopped() && b.Valid(b.now) && b.ContextsEnd() == end,
			"goes on %v, stopped %v, the contexts end at %v of %v", goesOn, b.Stopped(), b.ContextsEnd(), end)
		for i := range 2 {
			b.answer(renewals[i], Reply{Is: Kept, Process: processes[i]})
			b.want("")
		}
		renewals = b.Renew(b.now, nil)
		b.now = b.now.Add(200 * time.Millisecond)
	}
	end := b.Lease.Deadline().Sub(start)
	testkit.Check(t, end >= 1600*time.Millisecond, "the deadline is %v after the start", end)
}

// An attempt that leaves no time for the work is late.
func TestAnAttemptThatLeavesTooLittleIsLate(t *testing.T) {
	for after, want := range map[time.Duration]bool{600 * time.Millisecond: true, 700 * time.Millisecond: false} {
		b := asking(t, Terms{StopBefore: 300 * time.Millisecond})
		ask := slices.Clone(b.sent)
		b.answer(ask[0], Reply{Is: Granted, Process: "one", Token: 7})
		b.answer(ask[1], Reply{Is: Granted, Process: "two", Token: 7})
		b.now = start.Add(after)
		testkit.Check(t, b.Hold(b.now) == want && (b.Cause() == TooLate) != want && !b.IsSettled(), "after %v it is not %v: cause %d", after, want, b.Cause())
	}
}

// A lock that lingers and that no quorum keeps is due at once: what is left of it is released.
func TestALingeringLockThatIsNotKeptIsDueAtOnce(t *testing.T) {
	b := held(t, Terms{MinHold: time.Second})
	renewals := b.Renew(b.now, nil)
	linger(b)
	for i := range 2 {
		b.answer(renewals[i], Reply{Is: Gone})
	}
	at, _ := b.Next()
	testkit.Check(t, at == b.now, "it is due %v after the answer", at.Sub(b.now))
}

// A call whose lock is unlocked meanwhile learns that, and not that too few masters replied: the replies count.
func TestRepliesAfterTheEndCount(t *testing.T) {
	for is, want := range map[Answer]bool{Kept: true, Granted: true, Gone: false, Failed: false} {
		b := held(t, Terms{})
		sent := b.Enter(b.now, nil)
		b.Unlock(b.now, nil)
		e, more := b.TakeReply(b.now, sent[0], Reply{Is: is, Process: processes[0]}, nil)
		testkit.Check(t, e.Counts == want && len(more) == 0, "%v: %+v, and %+v", is, e, more)
	}
}

// A command that could not be sent ends no lease, whatever the time: the shell feeds it while it
// carries out commands, and could not tell its users.
func TestWhatCouldNotBeSentEndsNoLease(t *testing.T) {
	for _, do := range []Do{Ask, Renew, Repair, Enter, Extend} {
		b := held(t, Terms{})
		b.now = b.now.Add(time.Hour)
		b.answer(Command{Do: do, Master: 2}, Reply{Is: Unsent})
		b.want("")
		testkit.Check(t, b.Phase() == Held, "%s: phase %d", names[do], b.Phase())
	}
}

// A late copy of a writer's request says nothing about the downgrade: the master may still keep readers out.
func TestOnlyAReadersReplyConfirmsTheDowngrade(t *testing.T) {
	b := held(t, Terms{})
	late := b.Enter(b.now, nil)
	again := b.Enter(b.now, nil)
	b.Leave(nil)
	b.Leave(nil)
	downgrade := b.Downgrade(b.now, nil)
	b.answer(late[0], Reply{Is: Granted, Process: "one"})
	b.answer(downgrade[1], Reply{Is: Granted, Process: "two"})
	b.answer(late[1], Reply{Is: Refused})
	b.answer(again[1], Reply{Is: Quarantined})
	renewals := b.Renew(b.now, nil)
	testkit.Check(t, renewals[0].Do == Repair && renewals[1].Do == Renew, "%s and %s, want a repair and a renewal", names[renewals[0].Do], names[renewals[1].Do])
}

// Five masters have two counters to raise at most: the attempt is decided once both are, or one cannot be.
func TestTwoCountersToRaise(t *testing.T) {
	for each, want := range map[Reply]Cause{
		{Is: Granted, Token: 9}:              NoCause,
		{Is: Granted, Token: 9, Late: true}:  NoCause,
		{Is: Granted, Token: 10}:             NoCause, // a neighbour has raised it
		{Is: Granted, Token: 10, Late: true}: MovedOn,
		{Is: Granted, Token: 8}:              NotRaised,
		{Is: Failed}:                         RaiseFailed,
		{Is: Unsent}:                         RaiseFailed,
	} {
		l := new(Lease)
		l.Init(&Terms{Quorum: quorate.Majority(5), Lease: time.Second}, make([]Vote, 5))
		b := &bench{T: t, Lease: l, now: start}
		asks := b.Begin(b.now, Plan{}, nil)
		for i, token := range []uint64{7, 9, 8} {
			b.answer(asks[i], Reply{Is: Granted, Process: processes[i], Token: token})
		}
		b.want("Raise 0, Raise 2")
		testkit.Check(t, !b.IsSettled(), "it is settled before the counters are raised")
		raises := b.sent
		decided := map[bool]string{true: "Decided"}
		b.answer(raises[0], each)
		b.want(decided[want != NoCause])
		b.answer(raises[1], each)
		b.want(decided[want == NoCause])
		isHeld := b.IsSettled() && b.Hold(b.now)
		testkit.Check(t, isHeld == (want == NoCause) && b.Cause() == want, "after %+v it is held: %v, cause %d, want %d", each, isHeld, b.Cause(), want)
	}
}

// A lock that a test is given behaves like one that was acquired.
func TestAGivenLock(t *testing.T) {
	l, until := new(Lease), start.Add(time.Second)
	l.Init(&Terms{StopBefore: time.Second}, nil)
	l.InitHeld(7, until)
	testkit.Check(t, l.Valid(start) && l.Token() == 7 && l.Depth() == 1 && l.Deadline() == until && l.ContextsEnd() == start && !l.EndedByMaxHold(), "%+v", l)
}

func TestWhoKeepsALock(t *testing.T) {
	b := held(t, Terms{})
	before, after := b.KeepersAt(b.now), b.KeepersAt(b.Lease.Deadline())
	testkit.Check(t, before == 0b11 && after == 0, "%b keep it, and %b after its deadline", before, after)
}
