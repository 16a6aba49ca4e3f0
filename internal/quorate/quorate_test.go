package quorate

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// oracleVerdict tries every combination of answers by the nodes that have not answered.
func oracleVerdict(votes []int, need int) Verdict {
	const open, yes = 0, 1
	outcomes := map[bool]bool{}
	testkit.EachOutcome(len(votes), 2, func(late []int) {
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
		return Open
	case outcomes[true]:
		return Won
	default:
		return Lost
	}
}

func TestJudgeAgainstOracle(t *testing.T) {
	compared := 0
	for n := 1; n <= 5; n++ {
		for need := 1; need <= n; need++ {
			testkit.EachOutcome(n, 3, func(votes []int) { // open, yes, no
				yes, no := 0, 0
				for _, vote := range votes {
					switch vote {
					case 1:
						yes++
					case 2:
						no++
					}
				}
				if got, want := Judge(n, need, yes, no), oracleVerdict(votes, need); got != want {
					t.Fatalf("Judge(%d nodes, need %d, votes %v) = %v, want %v", n, need, votes, got, want)
				}
				compared++
			})
		}
	}
	t.Logf("%d outcomes compared", compared)
}

// The bounds are what counting gives, for each value that could be one.
func TestBoundsAgainstOracle(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for need := 1; need <= n; need++ {
			testkit.EachOutcome(n, 4, func(values []int) {
				smallest, largest := 4, -1
				for bound := range 4 {
					below, above := 0, 0
					for _, v := range values {
						if v <= bound {
							below++
						}
						if v >= bound {
							above++
						}
					}
					if below >= need {
						smallest = min(smallest, bound)
					}
					if above >= need {
						largest = max(largest, bound)
					}
				}
				if got := Smallest(need, append([]int{}, values...)); got != smallest {
					t.Fatalf("Smallest(%d, %v) = %d, want %d", need, values, got, smallest)
				}
				if got := Largest(need, append([]int{}, values...)); got != largest {
					t.Fatalf("Largest(%d, %v) = %d, want %d", need, values, got, largest)
				}
			})
		}
	}
}

func TestMajorityIsTheLeastThatIsMoreThanHalf(t *testing.T) {
	for n := 1; n <= 64; n++ {
		if m := Majority(n); 2*m <= n || 2*(m-1) > n {
			t.Errorf("%d of %d", m, n)
		}
	}
}
