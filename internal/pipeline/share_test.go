package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

var ours = scripts.NewList("a", "b", "c")

// acquireArgs are of owner o:1 and the name k1, say, with the seed 101.
func acquireArgs(number string) scripts.AcquireArgs {
	seed, _ := strconv.ParseUint(number, 10, 64)
	return scripts.AcquireArgs{Names: testkit.Names("k" + number), Owner: scripts.OwnerOf("o:" + number), Depth: 1,
		Lease: scripts.ToMillis(maxLease), List: ours, Seed: 100 + seed}
}

// queueOf reads requests: A1 is a fresh acquire of owner 1, A1! one of two names, A1+ one with
// another lease, A1? one that is sent alone; R1 and R1! are releases, R1t one that wants a
// tombstone, L1 lowers the depth, and X1 is a renewal.
func queueOf(text string, footprints map[string]*Footprint) (queue []request) {
	for word := range strings.FieldsSeq(text) {
		owner := strings.Trim(word[1:], "!+?t")
		if footprints[owner] == nil {
			footprints[owner] = new(Footprint)
		}
		r := request{footprint: footprints[owner], alone: strings.HasSuffix(word, "?"), to: named(word)}
		args := acquireArgs(owner)
		if strings.HasSuffix(word, "!") {
			args.Names = append(args.Names, scripts.NewName("l"+owner))
		}
		switch word[0] {
		case 'A':
			if strings.HasSuffix(word, "+") {
				args.Lease = scripts.ToMillis(time.Second)
			}
			r.call = scripts.Acquire(args)
		case 'R':
			r.call = scripts.Release(args.Names, args.Owner, 0)
			if strings.HasSuffix(word, "t") {
				r.footprint.mayArriveLate.Store(true)
			}
		case 'L':
			r.call = scripts.Release(args.Names, args.Owner, 1)
		case 'X':
			r.footprint, r.call = nil, scripts.Renew(ours, scripts.ToMillis(maxLease), []scripts.Renewal{{Names: args.Names, Owner: args.Owner, Token: 1}})
		}
		queue = append(queue, r)
	}
	return queue
}

// named is a receiver that names its request.
type named string

func (named) Done(Result) {}

// arranged shows what is sent: the requests of a run in parentheses.
func arranged(out []request) string {
	var words []string
	for left := out; len(left) > 0; left = left[runOf(left):] {
		var run []string
		for _, r := range left[:runOf(left)] {
			run = append(run, string(r.to.(named)))
		}
		if text := strings.Join(run, " "); len(run) > 1 {
			words = append(words, "("+text+")")
		} else {
			words = append(words, text)
		}
	}
	return strings.Join(words, " ")
}

func TestArrange(t *testing.T) {
	for _, test := range []struct{ queue, want string }{
		{"A1", "A1"},
		{"A1 A2 A3", "(A1 A2 A3)"},
		{"A1 R2 A3 R4", "(R2 R4) (A1 A3)"},
		{"A1 R1", "A1 R1"},
		{"A1 A2 R1 A3 R2", "(A1 A2) (R1 R2) A3"},
		{"R9 A1 A2 R1 R8 A3 R2 A4 R3", "R9 (A1 A2) (R1 R8 R2) (A3 A4) R3"},
		{"A1 X A2", "A1 X A2"},
		{"R1 A2 X R3 A4 A5", "R1 A2 X R3 (A4 A5)"},
		{"A1 L1 A2", "A1 L1 A2"},
		{"A1 A2! A3 A4?", "(A1 A3) A2! A4?"},
		{"R1 R2! R3 R4t R5", "(R1 R3 R5) R2! R4t"},
		{"A1+ A2+ A3 A4", "(A1+ A2+) (A3 A4)"},
		{"A1! R1!", "A1! R1!"},
	} {
		var a arranger
		for range 2 { // what the first arrangement leaves behind does not matter
			testkit.Equal(t, arranged(a.arrange(queueOf(test.queue, map[string]*Footprint{}))), test.want, test.queue)
		}
	}
}

// A run delays everything else on its server, so it is bounded.
func TestRunsAreBounded(t *testing.T) {
	var queue []request
	for i := range 2*scripts.MaxRun + 1 {
		queue = append(queue, queueOf(fmt.Sprint("A", i), map[string]*Footprint{})...)
	}
	var a arranger
	out, sizes := a.arrange(queue), []int{}
	for left := out; len(left) > 0; left = left[runOf(left):] {
		sizes = append(sizes, runOf(left))
	}
	want := []int{scripts.MaxRun, scripts.MaxRun, 1}
	testkit.Check(t, slices.Equal(sizes, want), "runs of %v, want %v", sizes, want)
}

// Whatever is queued: the requests of one owner keep their order, no acquire overtakes a release, and
// nothing overtakes a call of another kind or is overtaken by it.
func TestArrangeKeepsWhatMatters(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a arranger
	shared := 0
	for range 2_000 {
		var words []string
		for range 1 + rng.IntN(14) {
			word := fmt.Sprint(string("AAAARRRRLX"[rng.IntN(10)]), rng.IntN(6))
			switch rng.IntN(8) {
			case 0:
				word += "!"
			case 1:
				word += "?"
			}
			words = append(words, word)
		}
		queue := queueOf(strings.Join(words, " "), map[string]*Footprint{})
		for i := range queue {
			queue[i].order = uint64(i)
		}
		out := a.arrange(queue)
		testkit.Require(t, len(out) == len(queue), "%v: %d of %d are sent", words, len(out), len(queue))
		for i := range out {
			for j := range i {
				first, then := &out[j], &out[i] // as they are sent
				if first.order < then.order {
					continue
				}
				isOther := first.call.IsRelease() && !first.call.Frees() || then.call.IsRelease() && !then.call.Frees()
				if first.footprint == nil || then.footprint == nil || first.footprint == then.footprint || isOther ||
					first.call.IsAcquire() && then.call.Frees() {
					t.Fatalf("%v is sent as %s", words, arranged(out))
				}
			}
		}
		for left := out; len(left) > 0; left = left[runOf(left):] {
			for _, r := range left[1:runOf(left)] {
				shared++
				testkit.Require(t, r.canShare() && left[0].canShare() && r.call.CanShareWith(left[0].call),
					"%v is sent as %s", words, arranged(out))
			}
		}
	}
	testkit.Check(t, shared >= 2_000, "%d requests share a run", shared)
}

func TestCallsOfOtherListsShareNoRun(t *testing.T) {
	other := acquireArgs("2")
	other.List = scripts.NewList("a", "b", "d")
	var a arranger
	out := a.arrange([]request{{call: scripts.Acquire(acquireArgs("1")), footprint: new(Footprint)},
		{call: scripts.Acquire(other), footprint: new(Footprint)}})
	testkit.Equal(t, runOf(out), 1, "requests in the run of a client, next to one with another list")
}
