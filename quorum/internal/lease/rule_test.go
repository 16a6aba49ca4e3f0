package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// reckonOf returns the deadline of a lease whose masters keep their grants until then.
func reckonOf(until []clock.Instant, need int) clock.Instant {
	l := Lease{terms: &Terms{Quorum: quorate.Rule{N: len(until), Need: need}}, maxHoldEnd: clock.Never}
	for _, u := range until {
		l.votes = append(l.votes, Vote{until: u})
	}
	return l.reckon()
}

// settled returns the token of an attempt that is won, and how many counters stand lower.
func settled(votes []Vote) (token uint64, behind int) {
	l := Lease{terms: &Terms{}, votes: votes}
	commands := l.settle(nil)
	for _, c := range commands {
		if c.Do == Raise {
			behind++
		}
	}
	return l.token, behind
}

// oracleDeadline returns the last instant at which need nodes keep their grants.
func oracleDeadline(until []clock.Instant, need int) clock.Instant {
	best := clock.Never
	for _, candidate := range until {
		keeping := 0
		for _, u := range until {
			if u >= candidate {
				keeping++
			}
		}
		if keeping >= need && candidate > best {
			best = candidate
		}
	}
	return best
}

func TestDeadlineAgainstOracle(t *testing.T) {
	check := func(until []clock.Instant, need int) {
		t.Helper()
		want := oracleDeadline(until, need)
		if got := reckonOf(until, need); got != want {
			t.Fatalf("reckon(%v, %d) = %v, want %v", until, need, got, want)
		}
	}
	for n := 1; n <= 5; n++ {
		for need := 1; need <= n; need++ {
			testkit.EachOutcome(n, 4, func(outcome []int) {
				until := make([]clock.Instant, n)
				for i, o := range outcome {
					if until[i] = clock.Instant(o); o == 0 {
						until[i] = clock.Never
					}
				}
				check(until, need)
			})
		}
	}
	for range 20_000 {
		until := make([]clock.Instant, 6+rand.IntN(20))
		for i := range until {
			until[i] = clock.Instant(rand.IntN(12)) - 4
		}
		check(until, 1+rand.IntN(len(until)))
	}
}

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
			token, behind := settled(votes)
			if token != highest || behind != read-standing[highest] {
				t.Fatalf("settle(%v) = %d, %d behind; want %d, %d",
					outcome, token, behind, highest, read-standing[highest])
			}
		})
	}
}
