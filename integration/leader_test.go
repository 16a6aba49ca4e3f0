//go:build unix

package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

// race is an election whose leaders die, one after the other.
type race struct {
	*testing.T
	elections
	fleet       *redistest.Fleet
	contestants map[int]*contestant
	clients     int // so far
	played      map[string]int
	stalls      *poll.Stopwatch
}

func newRace(t *testing.T) *race {
	return &race{T: t, fleet: fleet(t, 3), contestants: map[int]*contestant{}, played: map[string]int{}, stalls: stopwatch(t)}
}

// join starts a contestant, and returns its number.
func (r *race) join(process, careless bool) int {
	r.clients++
	r.contestants[r.clients] = r.start(r.T, r.fleet, r.clients, process, careless)
	return r.clients
}

// replace ends a contestant's part and starts another one of its kind.
func (r *race) replace(client int) {
	process := r.contestants[client].process != nil
	delete(r.contestants, client)
	r.join(process, false)
}

// leads waits for a leader, and returns its term.
func (r *race) leads() observedTerm {
	r.Helper()
	var t observedTerm
	if !poll.Until(patience, func() (ok bool) { t, ok = r.valid(); return ok }) {
		r.Fatal("there is no leader", r.printed())
	}
	return t
}

// succeeded waits until another one leads. How late that is is for the judge.
func (r *race) succeeded(d death) {
	r.Helper()
	if !poll.Until(patience, func() bool { _, ok := r.gap(d); return ok }) {
		r.Fatalf("nobody else leads: the leader was %s%s", d.how, r.printed())
	}
	r.elections.outlived(d, r.stalls)
}

// printed quotes what the processes have printed.
func (r *race) printed() string {
	var b strings.Builder
	for n, c := range r.contestants {
		if c.process != nil {
			fmt.Fprintf(&b, "\ncandidate %d: %v", n, &c.printed)
		}
	}
	return b.String()
}

// happens lets the leader die in the way that its kind has met least so far.
func (r *race) happens() {
	r.Helper()
	t := r.leads()
	c := r.contestants[t.client]
	kind, ways := "goroutine", []string{"cut off", "closed", "resigned"}
	if c.process != nil {
		kind, ways = "process", []string{"killed", "frozen", "cut off", "resigned"}
	}
	how := slices.MinFunc(ways, func(a, b string) int { return r.played[kind+" "+a] - r.played[kind+" "+b] })
	r.played[kind+" "+how]++
	d := r.dies(t, how, r.stalls)
	switch how {
	case "killed", "closed":
		c.kill()
		r.succeeded(d)
		r.replace(t.client)
	case "resigned":
		must(r.T, c.end())
		r.succeeded(d)
		r.replace(t.client)
	case "frozen":
		must(r.T, c.process.Process.Signal(syscall.SIGSTOP))
		r.succeeded(d)
		must(r.T, c.process.Process.Signal(syscall.SIGCONT))
	case "cut off":
		c.cutOff(r.played[kind+" "+how]%2 == 0)
		r.succeeded(d)
		c.heal()
	}
}

// Candidates are killed, frozen, cut off, closed and told to resign while they lead, with a master
// frozen now and then. No two terms are valid at one time, tokens rise, and another one leads within
// two leases.
func TestElections(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	for i := range 5 {
		r.join(i < 3, false)
	}
	const rounds = 21
	for i := range rounds {
		frozen := r.fleet.Masters[i%3]
		if i%4 == 3 {
			must(t, frozen.Freeze())
		}
		r.happens()
		if i%4 == 3 {
			must(t, frozen.Thaw())
		}
	}
	for _, c := range r.contestants {
		must(t, c.end())
	}
	eventually(t, patience, func() bool { return len(allLocks(t, r.fleet.Masters)) == 0 },
		"nothing is left on the masters")
	wrong, longest := r.judge(2 * electionLease)
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d terms of %d candidates; the leader was: %v; the longest time without another: %v of a lease of %v",
		len(r.terms), r.clients, r.played, longest.Round(time.Millisecond), electionLease)
	if len(r.terms) < rounds {
		t.Errorf("%d terms, want %d", len(r.terms), rounds)
	}
}

// The judge of TestElections notices two leaders on real masters: one that does not ask Term.Valid,
// and one that an operator has robbed, which is valid until its next renewal.
func TestElectionsControl(t *testing.T) {
	noticed := func(r *race) bool {
		wrong, _ := r.judge(2 * electionLease)
		return slices.ContainsFunc(wrong, func(w string) bool { return strings.HasPrefix(w, "overlap:") })
	}
	t.Run("careless", func(t *testing.T) {
		t.Parallel()
		r := newRace(t)
		careless := r.join(false, true)
		led := r.leads()
		r.join(true, false)
		c := r.contestants[careless]
		d := r.dies(led, "cut off", r.stalls)
		c.cutOff(false)
		r.succeeded(d)
		if !poll.Until(patience, func() bool { return noticed(r) }) {
			t.Error("the judge sees nothing wrong with a leader that does not ask Term.Valid")
		}
		c.heal()
	})
	t.Run("robbed", func(t *testing.T) {
		t.Parallel()
		r := newRace(t)
		for range 2 {
			r.join(false, false)
		}
		operator := open(t, r.fleet, redlock.Open)
		for robbed := 0; !noticed(r); robbed++ {
			if robbed == 10 { // a renewal may come first, but not every time
				t.Fatal("the judge sees nothing wrong with two leaders")
			}
			d := r.dies(r.leads(), fmt.Sprint("robbed ", robbed), r.stalls)
			must(t, operator.ForceUnlock(t.Context(), election))
			r.succeeded(d)
		}
	})
}
