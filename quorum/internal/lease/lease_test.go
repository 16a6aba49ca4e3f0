package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

const start = clock.Instant(time.Hour)

var processes = []string{"one", "two", "three"}

// bench is a lease over three masters, and its clock.
type bench struct {
	*testing.T
	*Lease
	now  clock.Instant
	sent []Command // the last ones
}

func newBench(t *testing.T, terms Terms) *bench {
	terms.Need = 2
	if terms.Lease == 0 {
		terms.Lease = time.Second
	}
	l := new(Lease)
	l.Init(&terms, make([]Vote, 3))
	return &bench{T: t, Lease: l, now: start}
}

// asking is a bench whose attempt has asked all masters.
func asking(t *testing.T, terms Terms) *bench {
	b := newBench(t, terms)
	b.sent = b.Begin(b.now, Plan{}, nil)
	b.want("Ask 0, Ask 1, Ask 2")
	return b
}

// held is a bench whose first two masters have granted token 7, and whose third has not answered.
func held(t *testing.T, terms Terms) *bench {
	b := asking(t, terms)
	ask := slices.Clone(b.sent)
	b.answer(ask[0], Reply{Is: Granted, Process: "one", Token: 7})
	b.answer(ask[1], Reply{Is: Granted, Process: "two", Token: 7})
	b.want("Decided")
	if !b.Hold(b.now) {
		t.Fatal("it is not held")
	}
	b.sent = ask
	return b
}

func (b *bench) answer(c Command, r Reply) (o Effect) {
	o, b.sent = b.TakeReply(b.now, c, r, nil)
	return o
}

// want compares the last commands.
func (b *bench) want(commands string) {
	b.Helper()
	got := ""
	for _, c := range b.sent {
		if got != "" {
			got += ", "
		}
		switch c.Do {
		case Decided:
			got += names[c.Do]
		case End:
			got += fmt.Sprint("End ", c.Cause)
		case Release:
			got += fmt.Sprintf("Release %d to %d", c.Master, c.Level)
		default:
			got += fmt.Sprint(names[c.Do], " ", c.Master)
		}
	}
	if got != commands {
		b.Errorf("commands %q, want %q", got, commands)
	}
}

var names = map[Do]string{Ask: "Ask", Raise: "Raise", Renew: "Renew", Repair: "Repair", Enter: "Enter", Extend: "Extend",
	Submit: "Submit", Decided: "Decided", Stop: "Stop"}

// A master that does not keep the grant counts no longer, however long it had confirmed it before.
func TestADeniedGrantCountsNoLonger(t *testing.T) {
	for what, c := range map[string]struct {
		do     Do
		is     Answer
		repair bool // soon
	}{
		"another owner, by a repair":  {Repair, Refused, true},
		"barred, by a repair":         {Repair, Barred, true},
		"another owner, by a renewal": {Renew, Taken, true},
		"forgotten":                   {Renew, Gone, true},
		"in quarantine":               {Repair, Quarantined, false},
		"entered, in quarantine":      {Enter, Quarantined, false},
	} {
		t.Run(what, func(t *testing.T) {
			b := held(t, Terms{})
			b.answer(Command{Do: c.do, Master: 0}, Reply{Is: c.is, Process: "one"})
			b.want(fmt.Sprint("End ", NotKept))
			if b.Until(0) != clock.Never || b.Valid(b.now) || b.votes[0].has(forgot) != c.repair {
				t.Errorf("kept until %v, valid %v, repaired soon %v", b.Until(0), b.Valid(b.now), b.votes[0].has(forgot))
			}
		})
	}
}

// A master needs a release if a request for a grant may have been carried out there, or may yet be.
func TestWhatNeedsARelease(t *testing.T) {
	for what, c := range map[string]struct {
		reply  Reply
		needed bool
	}{
		"granted":             {Reply{Is: Granted, Process: "three"}, true},
		"not sent":            {Reply{Is: Unsent}, false},
		"failed":              {Reply{Is: Failed}, true},
		"failed, forbidden":   {Reply{Is: Failed, NothingDone: true}, false},
		"refused":             {Reply{Is: Refused}, false},
		"barred":              {Reply{Is: Barred}, false},
		"quarantined":         {Reply{Is: Quarantined}, false},
		"marker":              {Reply{Is: NotAccepted}, false},
		"refused, resent":     {Reply{Is: Refused, Resent: true}, true}, // the first copy may come late
		"quarantined, resent": {Reply{Is: Quarantined, Resent: true}, true},
		"marker, resent":      {Reply{Is: NotAccepted, Resent: true}, true},
	} {
		t.Run(what, func(t *testing.T) {
			b := asking(t, Terms{})
			b.answer(b.sent[2], c.reply)
			b.sent = b.GiveUp(nil)
			if want := "Release 0 to 0, Release 1 to 0"; c.needed {
				b.want(want + ", Release 2 to 0")
			} else {
				b.want(want)
			}
		})
	}
}

// Whom an attempt asks, by the answers in their order.
func TestWhomAnAttemptAsks(t *testing.T) {
	granted, refused, failed := Reply{Is: Granted}, Reply{Is: Refused}, Reply{Is: Failed}
	for what, c := range map[string]struct {
		plan    Plan
		replies []Reply // to the requests, in their order
		want    []string
	}{
		"all at once":             {Plan{}, []Reply{granted, granted}, []string{"Ask 2, Ask 0, Ask 1", "", "Decided"}},
		"a probe":                 {Plan{Probe: true}, []Reply{granted, granted}, []string{"Ask 2", "Ask 0, Ask 1", "Decided"}},
		"a probe that is refused": {Plan{Probe: true}, []Reply{refused}, []string{"Ask 2", "Decided"}},
		"a probe that fails":      {Plan{Probe: true}, []Reply{failed, granted, granted}, []string{"Ask 2", "Ask 0", "Ask 1", "Decided"}},
		"a probe in quarantine":   {Plan{Probe: true}, []Reply{{Is: Quarantined}, refused}, []string{"Ask 2", "Ask 0", "Decided"}},
		"two masters are down":    {Plan{Down: 0b101}, nil, []string{"Decided"}},
		"two are down, one of them for good": {Plan{Down: 0b101, Permanent: true, Probe: true}, []Reply{failed, failed},
			[]string{"Ask 2, Ask 0, Ask 1", "", "Decided"}},
		"one is down, and is asked anyway": {Plan{Down: 0b100}, []Reply{granted}, []string{"Ask 2, Ask 0, Ask 1", ""}},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, Terms{})
			c.plan.First = 2
			b.sent = b.Begin(b.now, c.plan, nil)
			b.want(c.want[0])
			var asked []Command
			for i, r := range c.replies {
				asked = append(asked, b.sent...)
				asked = slices.DeleteFunc(asked, func(c Command) bool { return c.Do != Ask })
				r.Process = processes[asked[i].Master]
				b.answer(asked[i], r)
				b.want(c.want[i+1])
			}
		})
	}
}

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
		"the deadline":           {Terms{}, time.Second, due, fmt.Sprint("End ", NotConfirmed), Expired},
		"a fixed lease is over":  {Terms{Fixed: true}, time.Second, due, fmt.Sprint("End ", LeaseOver), Expired},
		"the max hold":           {Terms{MaxHold: 500 * time.Millisecond}, 500 * time.Millisecond, due, fmt.Sprint("End ", MaxHoldOver), Expired},
		"the contexts":           {Terms{StopBefore: 300 * time.Millisecond}, 700 * time.Millisecond, due, "Stop 0", Held},
		"the contexts, fixed":    {Terms{StopBefore: 300 * time.Millisecond, Fixed: true}, 700 * time.Millisecond, due, "Stop 0", Held},
		"a deadline past both":   {Terms{StopBefore: 300 * time.Millisecond}, time.Second, due, fmt.Sprint("End ", NotConfirmed), Expired},
		"unlocked":               {Terms{}, 0, func(b *bench) { b.sent = b.Unlock(b.now, nil) }, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"unlocked too late":      {Terms{}, time.Second, func(b *bench) { b.sent = b.Unlock(b.now, nil) }, fmt.Sprint("End ", DeadlineFound), Expired},
		"closed":                 {Terms{}, 0, func(b *bench) { b.sent = b.Orphan(nil) }, fmt.Sprint("End ", Closed), Orphaned},
		"closed, then unlocked":  {Terms{}, 0, func(b *bench) { b.Orphan(nil); b.sent = b.Unlock(b.now, nil) }, fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0, Release 2 to 0"), Released},
		"lingers":                {Terms{MinHold: time.Second}, 0, linger, fmt.Sprint("End ", Unlocked), Lingering},
		"lingers no longer":      {Terms{MinHold: 500 * time.Millisecond}, 500 * time.Millisecond, linger, "", Held},
		"closed, then lingers":   {Terms{MinHold: time.Second}, 0, func(b *bench) { b.Orphan(nil); linger(b) }, "", Released},
		"lingers to the end":     {Terms{MinHold: 500 * time.Millisecond}, 0, func(b *bench) { linger(b); b.now = b.now.Add(500 * time.Millisecond); due(b) }, "Release 0 to 0, Release 1 to 0, Release 2 to 0", Released},
		"lingers, then too late": {Terms{MinHold: time.Hour}, 0, func(b *bench) { linger(b); b.now = b.now.Add(time.Second); due(b) }, "Release 0 to 0, Release 1 to 0, Release 2 to 0", Released},
	} {
		t.Run(what, func(t *testing.T) {
			b := held(t, c.terms)
			b.now = b.now.Add(c.after)
			c.event(b)
			b.want(c.want)
			if b.Phase() != c.phase {
				t.Errorf("phase %d, want %d", b.Phase(), c.phase)
			}
		})
	}
}

func linger(b *bench) { _, b.sent = b.Linger(b.now, nil) }

// A renewal that is confirmed after the contexts have ended moves the deadline, and brings no context back.
func TestALateRenewalBringsNoContextBack(t *testing.T) {
	b := held(t, Terms{StopBefore: 300 * time.Millisecond})
	if at, _ := b.Next(); at != start.Add(time.Second/3) {
		t.Errorf("it is due %v after it was acquired", at.Sub(start))
	}
	renewals := b.Renew(b.now, nil)
	b.now = start.Add(700 * time.Millisecond)
	for range 2 {
		goesOn, _ := b.Due(b.now, nil)
		if end := b.Lease.Deadline(); !goesOn || !b.Stopped() || !b.Valid(b.now) || b.ContextsEnd() != end {
			t.Errorf("goes on %v, stopped %v, the contexts end at %v of %v", goesOn, b.Stopped(), b.ContextsEnd(), end)
		}
		for i := range 2 {
			b.answer(renewals[i], Reply{Is: Kept, Process: processes[i]})
			b.want("")
		}
		renewals = b.Renew(b.now, nil)
		b.now = b.now.Add(200 * time.Millisecond)
	}
	if end := b.Lease.Deadline().Sub(start); end < 1600*time.Millisecond {
		t.Errorf("the deadline is %v after the start", end)
	}
}

// An attempt that leaves no time for the work is late.
func TestAnAttemptThatLeavesTooLittleIsLate(t *testing.T) {
	for after, want := range map[time.Duration]bool{600 * time.Millisecond: true, 700 * time.Millisecond: false} {
		b := asking(t, Terms{StopBefore: 300 * time.Millisecond})
		ask := slices.Clone(b.sent)
		b.answer(ask[0], Reply{Is: Granted, Process: "one", Token: 7})
		b.answer(ask[1], Reply{Is: Granted, Process: "two", Token: 7})
		if b.now = start.Add(after); b.Hold(b.now) != want || (b.Cause() == TooLate) == want {
			t.Errorf("after %v it is not %v: cause %d", after, want, b.Cause())
		}
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
	if at, _ := b.Next(); at != b.now {
		t.Errorf("it is due %v after the answer", at.Sub(b.now))
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
		if b.Phase() != Held {
			t.Errorf("%s: phase %d", names[do], b.Phase())
		}
	}
}

// A late copy of a writer's request says nothing of the downgrade: the master may keep readers out yet.
func TestOnlyAReadersReplyConfirmsTheDowngrade(t *testing.T) {
	b := held(t, Terms{})
	late := b.Enter(b.now, nil)[0]
	b.Leave(nil)
	downgrade := b.Downgrade(b.now, nil)
	b.answer(late, Reply{Is: Granted, Process: "one"})
	b.answer(downgrade[1], Reply{Is: Granted, Process: "two"})
	if renewals := b.Renew(b.now, nil); renewals[0].Do != Repair || renewals[1].Do != Renew {
		t.Errorf("%s and %s, want a repair and a renewal", names[renewals[0].Do], names[renewals[1].Do])
	}
}

// Five masters have two counters to raise at most: the attempt is decided once both are, or one cannot be.
func TestTwoCountersToRaise(t *testing.T) {
	for _, each := range []Reply{{Is: Granted, Token: 9}, {Is: Failed}} {
		l := new(Lease)
		l.Init(&Terms{Need: 3, Lease: time.Second}, make([]Vote, 5))
		b := &bench{T: t, Lease: l, now: start}
		asks := b.Begin(b.now, Plan{}, nil)
		for i, token := range []uint64{7, 9, 8} {
			b.answer(asks[i], Reply{Is: Granted, Process: processes[i], Token: token})
		}
		b.want("Raise 0, Raise 2")
		raises := b.sent
		decided := map[bool]string{true: "Decided"}
		b.answer(raises[0], each)
		b.want(decided[each.Is == Failed])
		b.answer(raises[1], each)
		b.want(decided[each.Is == Granted])
		if isHeld := b.Hold(b.now); isHeld != (each.Is == Granted) {
			t.Errorf("after %+v it is held: %v", each, isHeld)
		}
	}
}

// Only a valid lock can be handed over.
func TestHandOverOfALeaseThatIsOver(t *testing.T) {
	b := held(t, Terms{})
	b.now = b.Lease.Deadline()
	handed, sent := b.HandOver(b.now, nil)
	b.sent = sent
	b.want("")
	if handed || b.Phase() != Held {
		t.Errorf("handed over %v, phase %v", handed, b.Phase())
	}
}
