package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
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
	terms.Quorum = quorate.Majority(3)
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
	b.does(b.Begin(b.now, Plan{}, nil), "Ask 0, Ask 1, Ask 2")
	return b
}

// held is a bench whose first two masters have granted token 7, and whose third has not answered.
func held(t *testing.T, terms Terms) *bench {
	b := asking(t, terms)
	ask := slices.Clone(b.sent)
	b.answer(ask[0], Reply{Is: Granted, Process: "one", Token: 7})
	b.answer(ask[1], Reply{Is: Granted, Process: "two", Token: 7})
	b.want("Decided")
	testkit.Require(t, b.Hold(b.now), "it is not held")
	b.sent = ask
	return b
}

func (b *bench) answer(c Command, r Reply) (o Effect) {
	o, b.sent = b.TakeReply(b.now, c, r, nil)
	return o
}

// does notes commands, and compares them.
func (b *bench) does(sent []Command, want string) {
	b.Helper()
	b.sent = sent
	b.want(want)
}

// want compares the last commands.
func (b *bench) want(commands string) {
	b.Helper()
	var got []string
	for _, c := range b.sent {
		switch c.Do {
		case Decided:
			got = append(got, "Decided")
		case End:
			got = append(got, fmt.Sprint("End ", c.Cause))
		case Release:
			got = append(got, fmt.Sprintf("Release %d to %d", c.Master, c.Depth))
		default:
			got = append(got, fmt.Sprint(names[c.Do], " ", c.Master))
		}
	}
	testkit.Equal(b, strings.Join(got, ", "), commands, "commands")
}

var names = map[Do]string{Ask: "Ask", Raise: "Raise", Renew: "Renew", Repair: "Repair", Enter: "Enter", Extend: "Extend",
	Submit: "Submit", Stop: "Stop"}

// A master that does not keep the grant no longer counts, even if it had confirmed a longer lease before.
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
		"renewed by another master":   {Renew, Kept, true}, // one process is one vote
		"repaired by another master":  {Repair, Granted, true},
	} {
		for _, process := range []string{"one", "two"} {
			if process == "one" && (c.is == Kept || c.is == Granted) {
				continue
			}
			t.Run(what+", says "+process, func(t *testing.T) {
				b := held(t, Terms{})
				b.answer(Command{Do: c.do, Master: 0}, Reply{Is: c.is, Process: process})
				b.want(fmt.Sprint("End ", NotKept))
				testkit.Check(t, b.Until(0) == clock.Never && !b.Valid(b.now) && b.votes[0].has(forgot) == c.repair,
					"kept until %v, valid %v, repaired soon %v", b.Until(0), b.Valid(b.now), b.votes[0].has(forgot))
			})
		}
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
		"submitted":           {Reply{Is: NotAccepted}, false}, // and given up meanwhile
		"submitted, resent":   {Reply{Is: NotAccepted, Resent: true}, true},
	} {
		for _, isWon := range []bool{false, true} {
			t.Run(fmt.Sprint(what, ", won: ", isWon), func(t *testing.T) {
				b := asking(t, Terms{})
				asks := b.sent
				if isWon {
					b.answer(asks[0], Reply{Is: Granted, Process: "one"})
					b.answer(asks[1], Reply{Is: Granted, Process: "two"})
				}
				b.answer(asks[2], c.reply)
				if c.reply.Is == NotAccepted {
					b.want("Submit 2")
				}
				if strings.HasPrefix(what, "marker") {
					again, _ := b.Submitted(asks[2])
					b.answer(again, Reply{Is: Unsent})
				}
				b.sent = b.GiveUp(nil)
				if want := "Release 0 to 0, Release 1 to 0"; c.needed {
					b.want(want + ", Release 2 to 0")
				} else {
					b.want(want)
				}
			})
		}
	}
}

// What the attempt takes an answer for. One process is one vote.
func TestWhatAnAnswerIsTakenFor(t *testing.T) {
	for is, want := range map[Answer]Answer{Quarantined: Quarantined, Barred: Refused, Unsent: Failed, NotAccepted: Failed, Granted: Failed} {
		b := asking(t, Terms{})
		asks := b.sent
		b.answer(asks[0], Reply{Is: Granted, Process: "one"})
		for b.answer(asks[2], Reply{Is: is, Process: "one"}); len(b.sent) > 0 && b.sent[0].Do == Submit; {
			again, _ := b.Submitted(asks[2])
			b.answer(again, Reply{Is: is})
		}
		got := b.AnswerOf(2)
		testkit.Check(t, got == want, "answer %d is taken for %d, want %d", is, got, want)
	}
	b := newBench(t, Terms{})
	b.Begin(b.now, Plan{Down: 0b101}, nil)
	for i, want := range []Answer{Failed, Unasked, Failed} {
		got := b.AnswerOf(i)
		testkit.Check(t, got == want, "two masters are down: answer %d of master %d, want %d", got, i, want)
	}
}

// A master that has lost its grant may have been another of the masters: its process counts where it confirms now.
func TestAProcessMovesToAnotherMaster(t *testing.T) {
	b := held(t, Terms{})
	b.answer(b.sent[2], Reply{Is: Granted, Process: "three"})
	renewals := b.Renew(b.now, nil)
	b.answer(renewals[0], Reply{Is: Gone})
	e := b.answer(renewals[2], Reply{Is: Kept, Process: "one"})
	testkit.Check(t, e.Twin == -1 && b.Valid(b.now), "it is the twin of %d, valid %v", e.Twin, b.Valid(b.now))
}

// Each request for a grant has the client's list submitted, once.
func TestEachRequestSubmitsTheList(t *testing.T) {
	for _, first := range []Answer{NotAccepted, Granted} {
		b := asking(t, Terms{})
		asks := b.sent
		submits := func(c Command, then Answer) {
			b.answer(c, Reply{Is: NotAccepted})
			b.want("Submit 2")
			again, _ := b.Submitted(c)
			b.answer(again, Reply{Is: then, Process: "three"})
		}
		submits(asks[2], first)
		b.answer(asks[0], Reply{Is: Granted, Process: "one"})
		b.answer(asks[1], Reply{Is: Granted, Process: "two"})
		b.Hold(b.now)
		if first == Granted {
			b.answer(b.Renew(b.now, nil)[2], Reply{Is: Gone})
		}
		for _, then := range []Answer{NotAccepted, Refused, Failed, Granted} {
			renewals := b.Renew(b.now, nil)
			submits(renewals[len(renewals)-1], then)
			b.want("")
		}
	}
}

// A request that goes out again is of the present depth and mode.
func TestWhatGoesOutAgain(t *testing.T) {
	b := held(t, Terms{})
	ask := b.sent[2]
	b.answer(ask, Reply{Is: NotAccepted})
	b.Enter(b.now, nil)
	b.Downgrade(b.now, nil)
	again, _ := b.Submitted(ask)
	testkit.Check(t, again.Depth == 2 && again.Mode == Read, "%+v", again)
}

// No request follows the end of an attempt. A master that does not accept the client still gets its list.
func TestNoRequestFollowsTheEnd(t *testing.T) {
	b := newBench(t, Terms{})
	ask := b.Begin(b.now, Plan{First: 2, Probe: true}, nil)[0]
	b.GiveUp(nil)
	b.does(b.AskOthers(nil), "")
	b.answer(ask, Reply{Is: Granted, Process: "three"})
	testkit.Equal(t, b.Until(2), clock.Never, "a late grant counts")
	b.answer(ask, Reply{Is: NotAccepted})
	b.want("Submit 2")
	_, goesOn := b.Submitted(ask)
	testkit.Check(t, !goesOn, "a request follows")
}

// A repair that could not be sent leaves nothing behind, unless an earlier request may have been carried out.
func TestWhatNeedsAReleaseAfterARepair(t *testing.T) {
	for first, want := range map[Answer]string{Quarantined: "", Failed: ", Release 2 to 0"} {
		b := asking(t, Terms{})
		ask := slices.Clone(b.sent)
		for i, r := range []Reply{{Is: Granted, Process: "one"}, {Is: Granted, Process: "two"}, {Is: first}} {
			b.answer(ask[i], r)
		}
		b.Hold(b.now)
		b.answer(b.Renew(b.now, nil)[2], Reply{Is: Unsent})
		b.does(b.Unlock(b.now, nil), fmt.Sprint("End ", Unlocked, ", Release 0 to 0, Release 1 to 0", want))
	}
}

// Which masters an attempt asks, by the answers in their order.
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
			b.does(b.Begin(b.now, c.plan, nil), c.want[0])
			var asked []Command
			for i, r := range c.replies {
				asked = append(asked, b.sent...)
				asked = slices.DeleteFunc(asked, func(c Command) bool { return c.Do != Ask })
				r.Process = processes[asked[i].Master]
				b.answer(asked[i], r)
				b.want(c.want[i+1])
			}
			b.does(b.AskOthers(nil), "")
		})
	}
}

// The token is the highest counter of those that were read in time, and those that are lower are raised.
func TestTokenAgainstOracle(t *testing.T) {
	for n := 1; n <= 5; n++ {
		testkit.EachOutcome(n, 5, func(outcome []int) { // 0: a late grant, with the highest counter
			votes := make([]Vote, n)
			var highest uint64
			standing := map[uint64]int{}
			read := 0
			for i, o := range outcome {
				votes[i] = Vote{token: uint64(o), answer: Granted}
				if o == 0 {
					votes[i] = Vote{token: 99, answer: Unanswered}
					continue
				}
				read++
				standing[uint64(o)]++
				highest = max(highest, uint64(o))
			}
			l := Lease{terms: &Terms{}, votes: votes}
			behind := len(slices.DeleteFunc(l.settle(nil), func(c Command) bool { return c.Do != Raise }))
			testkit.Require(t, l.token == highest && behind == read-standing[highest],
				"settle(%v): %d, %d behind; want %d, %d", outcome, l.token, behind, highest, read-standing[highest])
		})
	}
}
