// Package slots chooses which slots of a semaphore a call attempts. It is pure: it sends nothing and
// reads no clock. A [Turn] is one turn of a call. Next says what the turn does, and the caller reports
// the outcome:
//
//	step   the caller                                      then
//	Try    attempts those slots, all or none               Refused, unless it has acquired them
//	Ask    asks a node which slots are free                Hinted, or Guess if no node answers
//	Full   waits for a release: too few slots are free     the turn is over
//	Over   waits a moment: others were faster              the turn is over
//
// A node's answer is a hint. The node may lag behind the others, or have forgotten its grants, so two refused
// attempts end its hint, and a turn has at most six. No slot is attempted without need: if the hint says that all
// slots are taken, a waiter attempts none.
package slots

import "slices"

// Step is what a turn does next.
type Step int

const (
	Try Step = iota
	Ask
	Full
	Over
)

const (
	// After attemptsPerHint refusals a hint counts as out of date.
	attemptsPerHint = 2
	// maxAttempts bounds the attempts of a turn, whatever the nodes say.
	maxAttempts = 6
)

// Turn is one turn of a call that wants slots. Make it with [NewTurn]. It is not safe for
// concurrent use.
type Turn struct {
	size, want, agree int
	random            func(below int) int

	guessing bool
	likely   int // to be guessed; −1 for none

	hinted   bool
	free     []int // by the last hint, without those that were attempted since
	agreed   int   // how many hints in a row have said that too few are free
	tried    []int // the slots of the last attempt
	refused  []int // in this turn, if one slot is wanted
	attempts int
	failed   int // attempts since the last hint
}

// NewTurn returns a turn that wants `want` of `size` slots. Full comes once agree hints in a row have
// said that too few are free. random returns a number from 0 to below−1.
func NewTurn(size, want, agree int, random func(below int) int) *Turn {
	return &Turn{size: size, want: want, agree: agree, random: random, likely: -1}
}

// Guess has the turn attempt slots before it asks for a hint: random ones, and likely among them if that
// is a slot.
func (t *Turn) Guess(likely int) {
	t.guessing, t.likely = true, likely
}

// Next returns what the turn does next; for Try with the slots, in ascending order.
func (t *Turn) Next() (Step, []int) {
	switch {
	case t.guessing:
		t.guessing = false
		all := make([]int, t.size)
		for slot := range all {
			all[slot] = slot
		}
		return Try, t.choose(all)
	case !t.hinted:
		return Ask, nil
	case t.attempts == maxAttempts:
		return Over, nil
	case len(t.free) < t.want && t.failed > 0:
		return Over, nil
	case len(t.free) < t.want && t.agreed < t.agree, t.failed == attemptsPerHint:
		return Ask, nil
	case len(t.free) < t.want:
		return Full, nil
	}
	step := t.choose(t.free)
	t.free = slices.DeleteFunc(t.free, func(slot int) bool { return slices.Contains(step, slot) })
	return Try, step
}

// choose returns random slots of those given.
func (t *Turn) choose(from []int) []int {
	from = slices.Clone(from)
	chosen := 0
	if i := slices.Index(from, t.likely); i >= 0 {
		from[0], from[i] = from[i], from[0]
		chosen++
	}
	for i := chosen; i < t.want; i++ {
		j := i + t.random(len(from)-i)
		from[i], from[j] = from[j], from[i]
	}
	t.likely = -1
	t.tried = from[:t.want]
	slices.Sort(t.tried)
	return t.tried
}

// Refused reports that the nodes refused the slots of the last attempt: another client has at least one of them.
func (t *Turn) Refused() {
	t.attempts++
	t.failed++
	if t.want == 1 { // else some of them may be free
		t.refused = append(t.refused, t.tried[0])
	}
}

// Hinted reports which slots are free, according to one node.
func (t *Turn) Hinted(free []int) {
	t.hinted, t.failed = true, 0
	t.free = slices.DeleteFunc(slices.Clone(free), func(slot int) bool { return slices.Contains(t.refused, slot) })
	if t.agreed++; len(t.free) >= t.want {
		t.agreed = 0
	}
}

// MayHaveFree reports whether a slot may be free alongside those that the turn has acquired.
func (t *Turn) MayHaveFree() bool { return !t.hinted || len(t.free) > 0 }
