package quorum

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/quorumlock/quorumlock/clock"
)

func TestRules(t *testing.T) {
	for nodes := -1; nodes <= 9; nodes++ {
		need, err := All(nodes)
		if ok := nodes >= 1; ok != (err == nil) || ok && need != nodes || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("All(%d) = %d, %v", nodes, need, err)
		}
		need, err = Majority(nodes)
		ok := nodes >= 1 && nodes%2 == 1
		if ok != (err == nil) || ok && need != nodes/2+1 || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("Majority(%d) = %d, %v", nodes, need, err)
		}
	}
}

// eachOutcome calls f with every combination of n answers, which are numbers below base.
func eachOutcome(n, base int, f func(outcome []int)) {
	outcome := make([]int, n)
	for {
		f(outcome)
		i := 0
		for ; i < n; i++ {
			if outcome[i]++; outcome[i] < base {
				break
			}
			outcome[i] = 0
		}
		if i == n {
			return
		}
	}
}

// oracleVerdict tries every combination of answers by the nodes that have not answered.
func oracleVerdict(votes []int, need int) verdict {
	const open, yes = 0, 1
	outcomes := map[bool]bool{}
	eachOutcome(len(votes), 2, func(late []int) {
		count := 0
		for i, vote := range votes {
			if vote == yes || vote == open && late[i] == yes {
				count++
			}
		}
		outcomes[count >= need] = true
	})
	switch {
	case outcomes[true] && outcomes[false]:
		return pending
	case outcomes[true]:
		return won
	default:
		return lost
	}
}

func TestJudgeAgainstOracle(t *testing.T) {
	compared := 0
	for n := 1; n <= 5; n++ {
		for need := 1; need <= n; need++ {
			eachOutcome(n, 3, func(votes []int) { // open, yes, no
				yes, no := 0, 0
				for _, vote := range votes {
					switch vote {
					case 1:
						yes++
					case 2:
						no++
					}
				}
				if got, want := judge(n, need, yes, no), oracleVerdict(votes, need); got != want {
					t.Fatalf("judge(%d nodes, need %d, votes %v) = %v, want %v", n, need, votes, got, want)
				}
				compared++
			})
		}
	}
	t.Logf("%d outcomes compared", compared)
}

// oracleDeadline returns the last of the instants at which as many nodes as need keep their grants.
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
		if got := deadlineOf(append([]clock.Instant(nil), until...), need); got != want {
			t.Fatalf("deadlineOf(%v, %d) = %v, want %v", until, need, got, want)
		}
	}
	for n := 1; n <= 5; n++ {
		for need := 1; need <= n; need++ {
			eachOutcome(n, 4, func(outcome []int) {
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
		eachOutcome(n, 5, func(outcome []int) { // 0: a late grant, with the highest counter
			votes := make([]answer, n)
			var highest uint64
			standing := map[uint64]int{}
			read := 0
			for i, o := range outcome {
				votes[i] = answer{token: uint64(o), counted: o > 0}
				if o == 0 {
					votes[i].token = 99
					continue
				}
				read++
				standing[uint64(o)]++
				highest = max(highest, uint64(o))
			}
			token, behind := chooseToken(votes)
			if token != highest || behind != read-standing[highest] {
				t.Fatalf("chooseToken(%v) = %d, %d behind; want %d, %d",
					outcome, token, behind, highest, read-standing[highest])
			}
		})
	}
}

func TestOracleAboveFiveNodes(t *testing.T) {
	for range 3_000 {
		n := 6 + rand.IntN(5)
		need := 1 + rand.IntN(n)
		answers, votes := make([]int, n), make([]answer, n)
		yes, no := 0, 0
		var highest uint64
		standing := map[uint64]int{}
		for i := range answers {
			switch answers[i] = rand.IntN(3); answers[i] {
			case 1:
				yes++
				votes[i] = answer{token: 1 + rand.Uint64N(4), counted: true}
				highest = max(highest, votes[i].token)
				standing[votes[i].token]++
			case 2:
				no++
			}
		}
		if got, want := judge(n, need, yes, no), oracleVerdict(answers, need); got != want {
			t.Fatalf("judge(%d nodes, need %d, votes %v) = %v, want %v", n, need, answers, got, want)
		}
		if token, behind := chooseToken(votes); token != highest || behind != yes-standing[highest] {
			t.Fatalf("chooseToken(%+v) = %d, %d behind; want %d", votes, token, behind, highest)
		}
	}
}
