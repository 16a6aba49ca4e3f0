package quorate

import (
	"math"
	"math/rand/v2"
	"slices"
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
				var of [3]Set
				for i, vote := range votes {
					of[vote] |= Of(i)
				}
				r, want := Rule{n, need}, oracleVerdict(votes, need)
				if got := r.Judge(of[1], of[0]); got != want || r.Blocks(of[2]) != (want == Lost) {
					t.Fatalf("%+v judges %v as %v, want %v; blocked: %v", r, votes, got, want, r.Blocks(of[2]))
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
				got := Smallest(Rule{n, need}, values)
				testkit.Require(t, got == smallest, "Smallest(%d, %v) = %d, want %d", need, values, got, smallest)
				got = Largest(Rule{n, need}, values)
				testkit.Require(t, got == largest, "Largest(%d, %v) = %d, want %d", need, values, got, largest)
			})
		}
	}
}

// Of many nodes, with values as instants are.
func TestBoundsOfManyNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		values := make([]int64, 6+random.IntN(MaxNodes-5))
		for i := range values {
			values[i] = []int64{math.MaxInt64, math.MinInt64, random.Int64N(20) - 10}[min(random.IntN(8), 2)]
		}
		r, sorted := Rule{len(values), 1 + random.IntN(len(values))}, slices.Sorted(slices.Values(values))
		smallest, largest := sorted[r.Need-1], sorted[len(sorted)-r.Need]
		testkit.Require(t, Smallest(r, values) == smallest && Largest(r, values) == largest,
			"%+v of %v: %d and %d, want %d and %d", r, values, Smallest(r, values), Largest(r, values), smallest, largest)
	}
}

func TestMajorityIsTheLeastThatIsSafe(t *testing.T) {
	for n := 1; n <= MaxNodes; n++ {
		m := Majority(n)
		testkit.Check(t, m.IsSafe() && !(Rule{n, m.Need - 1}).IsSafe() && !(Rule{n, n + 1}).IsSafe() && All(n).IsSafe(), "%+v", m)
		if all := m.Nodes(); all.Len() != n || !all.Has(n-1) || !All(n).Enough(all) || All(n).Enough(all&^Of(n-1)) {
			t.Errorf("%d nodes: %b", n, all)
		}
	}
}

// A rule is safe if and only if any two of its quorums share a node.
func TestQuorumsOfASafeRuleShareANode(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for need := 0; need <= n; need++ {
			r, share := Rule{n, need}, true
			for a := range r.Nodes() + 1 {
				for b := range r.Nodes() + 1 {
					share = share && !(r.Enough(a) && r.Enough(b) && a&b == 0)
				}
			}
			testkit.Check(t, share == r.IsSafe(), "%+v: any two quorums share a node: %v", r, share)
		}
	}
}
