package slots

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// lowest chooses the first of what there is.
func lowest(int) int { return 0 }

// What a turn does, step by step. The moves are the caller's: g a guess, r a refusal, h with the
// slots that a node says are free.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		name              string
		size, want, agree int
		moves, steps      string
	}{
		{"a hint comes first", 4, 1, 1, "h13", "ask try[1]"},
		{"a guess comes first", 4, 1, 1, "g0 r h13", "try[0] ask try[1]"},
		{"the likely slot is guessed", 4, 1, 1, "g2 r h13", "try[2] ask try[1]"},
		{"a likely slot that does not exist", 4, 1, 1, "g9 r h13", "try[0] ask try[1]"},
		{"nothing is free", 4, 1, 1, "h", "ask full"},
		{"nothing is free after a guess", 4, 1, 1, "g0 r h", "try[0] ask full"},
		{"a lost race goes to another slot", 4, 1, 1, "h13 r", "ask try[1] try[3]"},
		{"the only free slot was taken", 4, 1, 1, "h1 r", "ask try[1] over"},
		{"a slot that refused is not attempted again", 4, 1, 1, "g0 r h0", "try[0] ask full"},
		{"two refusals end a hint", 4, 1, 1, "h0123 r r h23 r", "ask try[0] try[1] ask try[2] try[3]"},
		{"a turn has an end", 16, 1, 1, "h0123456789 r r h23456789 r r h456789 r r", "ask try[0] try[1] ask try[2] try[3] ask try[4] try[5] over"},
		{"two nodes must agree", 4, 1, 2, "h h", "ask ask full"},
		{"the second node disagrees", 4, 1, 2, "h h2", "ask ask try[2]"},
		{"agreement starts over", 4, 1, 2, "h h123 r r h h", "ask ask try[1] try[2] ask ask full"},
		{"several at once", 4, 2, 1, "h013", "ask try[0 1]"},
		{"several, guessed", 4, 2, 1, "g3 r h013", "try[1 3] ask try[0 1]"},
		{"several, of which some may be free", 3, 2, 1, "g0 r h12", "try[0 1] ask try[1 2]"},
		{"too few for several", 4, 2, 1, "h3", "ask full"},
		{"all", 3, 3, 1, "g0", "try[0 1 2]"},
		{"the only one", 1, 1, 1, "g0", "try[0]"},
	} {
		turn := NewTurn(c.size, c.want, c.agree, lowest)
		var steps []string
		for _, move := range strings.Fields(c.moves) {
			switch move[0] {
			case 'g':
				turn.Guess(int(move[1] - '0'))
				continue
			}
			steps = append(steps, take(turn))
			switch move[0] {
			case 'r':
				turn.Refused()
			case 'h':
				var free []int
				for _, digit := range move[1:] {
					free = append(free, int(digit-'0'))
				}
				turn.Hinted(free)
			}
		}
		steps = append(steps, take(turn))
		testkit.Equal(t, strings.Join(steps, " "), c.steps, c.name)
	}
}

func take(turn *Turn) string {
	step, chosen := turn.Next()
	switch step {
	case Try:
		return "try" + fmt.Sprint(chosen)
	case Ask:
		return "ask"
	case Full:
		return "full"
	default:
		return "over"
	}
}

// Every choice is of different slots, in ascending order, of those that a node said are free; each
// of them gets its share.
func TestChoicesAreSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	free := []int{1, 2, 5, 8, 9, 11}
	for want := 1; want <= len(free); want++ {
		count := map[int]int{}
		const turns = 3000
		for range turns {
			turn := NewTurn(12, want, 1, rng.IntN)
			turn.Hinted(free)
			step, chosen := turn.Next()
			if step != Try || len(chosen) != want || !slices.IsSorted(chosen) || len(slices.Compact(slices.Clone(chosen))) != want {
				t.Fatalf("%d wanted: %v", want, chosen)
			}
			for _, slot := range chosen {
				count[slot]++
			}
		}
		for _, slot := range free {
			share := turns * want / len(free)
			testkit.Check(t, count[slot] >= share*8/10 && count[slot] <= share*12/10,
				"%d wanted: slot %d was chosen %d times of %d", want, slot, count[slot], turns)
		}
		testkit.Equal(t, len(count), len(free), want)
	}
}

// A guess of several slots has the likely one, and any of the others: else all callers would guess the same.
func TestGuessesHaveTheLikelySlot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	count := map[int]int{}
	const turns = 1000
	for range turns {
		turn := NewTurn(4, 2, 1, rng.IntN)
		turn.Guess(2)
		_, chosen := turn.Next()
		for _, slot := range chosen {
			count[slot]++
		}
	}
	for slot, least := range []int{turns / 4, turns / 4, turns, turns / 4} {
		testkit.Check(t, count[slot] >= least, "slot %d was guessed %d times of %d", slot, count[slot], turns)
	}
}

func TestMayHaveFree(t *testing.T) {
	turn := NewTurn(4, 1, 1, lowest)
	turn.Guess(-1)
	turn.Next()
	testkit.Check(t, turn.MayHaveFree(), "a guess says nothing of the other slots")
	turn.Refused()
	turn.Hinted([]int{2, 3})
	turn.Next()
	testkit.Check(t, turn.MayHaveFree(), "slot 3 is left")
	turn.Refused()
	turn.Next()
	testkit.Check(t, !turn.MayHaveFree(), "no slot is left")
}

// Hints that no slot is free are believed unless an attempt met others who tried; then once they have lasted.
func TestTries(t *testing.T) {
	const long = 40 * time.Millisecond
	now := clock.Instant(time.Hour)
	full := func(tries *Tries) bool {
		return tries.Full(now, 3, func(since clock.Instant) bool { return now.Sub(since) >= long })
	}
	tries := new(Tries)
	testkit.Equal(t, full(tries), true, "no attempt: full")
	tries.Refused("x")
	testkit.Equal(t, full(tries), true, "after an attempt that a holder refused: full")
	testkit.Equal(t, tries.Over(true, 3), false, "a turn with a new holder: over")
	tries.Begin()
	tries.Refused("x")
	testkit.Equal(t, tries.Over(true, 3), true, "a turn with the same holder: over")
	testkit.Equal(t, tries.Over(false, 3), false, "a turn with others, too: over")

	tries.Refused("")
	testkit.Equal(t, full(tries), false, "after an attempt that others refused: full")
	now = now.Add(long - 1)
	testkit.Equal(t, full(tries), false, "soon after: full")
	tries.Refused("")
	testkit.Equal(t, full(tries), false, "after another attempt: full")
	now = now.Add(long - 1)
	testkit.Equal(t, full(tries), false, "soon after that: full")
	now = now.Add(1)
	testkit.Equal(t, full(tries), true, "when it has lasted: full")

	// More holders than slots: some have released, and others were faster.
	tries = new(Tries)
	for i, holder := range []string{"a", "b", "c", "d"} {
		tries.Begin()
		tries.Refused("") // by some who try, too
		tries.Refused(holder)
		testkit.Equal(t, tries.Over(false, 3), i == 3, "after another holder: over")
		testkit.Equal(t, full(tries), i == 3, "after another holder: full")
	}
}
