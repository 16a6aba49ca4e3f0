package semaphore

import (
	"flag"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/mutants/mutate"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// found is the result of a search: a trace that breaks a promise, if there is one.
type found struct {
	worlds int
	broken string
	trace  []string
}

// search explores all that the clients can do within the setup's steps, depth first. It plays each path
// from its begin, and leaves a path at a world that was met before with the same number of steps left.
func search(s setup) found {
	met := map[string]int{} // how many steps were left
	var path, widths []int
	for {
		at := 0
		w := newWorld(s, func(below int) int {
			if at == len(path) {
				path, widths = append(path, 0), append(widths, below)
			}
			widths[at] = below
			at++
			return path[at-1]
		})
		played := len(path)
		for left := s.steps; left > 0 && w.broken == ""; left-- {
			if at >= played {
				key := w.key()
				if before, known := met[key]; known && before >= left {
					break
				}
				met[key] = left
			}
			w.step()
		}
		if w.broken != "" {
			return found{len(met), w.broken, w.trace}
		}
		for len(path) > 0 && path[len(path)-1] == widths[len(path)-1]-1 {
			path, widths = path[:len(path)-1], widths[:len(path)-1]
		}
		if len(path) == 0 {
			return found{worlds: len(met)}
		}
		path[len(path)-1]++
	}
}

func (f found) report(t *testing.T) {
	t.Helper()
	t.Logf("%d worlds", f.worlds)
	if f.broken != "" {
		t.Logf("violated after %d steps: %s\n%s", len(f.trace), f.broken, strings.Join(f.trace, "\n"))
	}
}

var (
	one     = setup{sizes: []int{1, 1, 1}, wants: []int{1, 1, 1}, guesses: true, steps: 12}
	two     = setup{sizes: []int{2, 2, 2}, wants: []int{1, 1, 1}, guesses: true, steps: 9}
	hinted  = setup{sizes: []int{2, 2}, wants: []int{1, 1}, steps: 13}
	pairs   = setup{sizes: []int{3, 3}, wants: []int{2, 1}, steps: 11}
	differs = setup{sizes: []int{1, 2, 2}, wants: []int{1, 1, 1}, guesses: true, steps: 9}
)

var deep = flag.Bool("model.deep", false, "search two steps further")

// No setup breaks a promise.
func TestSearch(t *testing.T) {
	for name, s := range map[string]setup{"one slot": one, "two slots": two, "two slots, hints first": hinted,
		"two slots at once": pairs, "different numbers": differs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if *deep {
				s.steps += 2
			}
			got := search(s)
			t.Logf("all clients make up to %d steps", s.steps)
			got.report(t)
			testkit.Equal(t, got.broken, "", "it breaks")
		})
	}
}

const (
	slotsFile = "quorum/internal/slots/slots.go"
	namesFile = "scripts/slots.go"
	replyFile = "internal/fakeredis/held.go"
)

// mutants are small edits of shipped files. Each leaves out one rule, and the search must find what
// follows.
var mutants = []mutate.Mutant[setup]{
	{Rule: "slots end at n-1", Edits: []mutate.Edit{{File: slotsFile, Text: "all := make([]int, t.size)", Now: "all := make([]int, t.size+1)"}}, Setup: one},
	{Rule: "each slot has a key of its own", Edits: []mutate.Edit{{File: namesFile, Text: "strconv.Itoa(slot) + \":\" + semaphore", Now: "strconv.Itoa(slot-slot) + \":\" + semaphore"}}, Setup: two},
	{Rule: "the key does not depend on the client", Edits: []mutate.Edit{{File: namesFile, Text: "return slotPrefix + strconv.Itoa(slot)", Now: "mutant++\n\treturn slotPrefix + strconv.Itoa(mutant) + strconv.Itoa(slot)"}}, Setup: one},
	{Rule: "several slots differ", Edits: []mutate.Edit{{File: slotsFile, Text: "from[i], from[j] = from[j], from[i]\n\t}", Now: "from[i] = from[j]\n\t}"}}, Setup: pairs},
	{Rule: "an attempt is at as many slots as are wanted", Edits: []mutate.Edit{{File: slotsFile, Text: "t.tried = from[:t.want]", Now: "t.tried = from[:1]"}}, Setup: pairs},
	{Rule: "a hint shows what is free", Edits: []mutate.Edit{{File: replyFile, Text: "digits[i] = '1'", Now: "digits[i], digits[0] = '1', '1'"}}, Setup: hinted},
	{Rule: "a lost race goes to another slot", Edits: []mutate.Edit{{File: slotsFile, Text: "t.refused = append(t.refused, t.tried[0])", Now: "t.refused = append(t.refused, 0, 1)"}}, Setup: two},
}

// mutant is the declaration that an edit needs.
const mutant = "\nvar mutant int\n"

func TestMutants(t *testing.T) {
	mutate.Run(t, mutants, map[string]string{namesFile: mutant}, table, func(s setup) { search(s).report(t) })
}

// The search goes in depth first, so its traces are not the shortest.
var table = &mutate.Table{
	Head: "| rule left out | in | edit | trace |\n|---|---|---|---|\n",
	End:  "<!-- the end of the semaphores' table -->",
}

// The table in docs/reports/mutants.md has the mutants, as they are.
func TestTable(t *testing.T) { mutate.Check(t, table, mutants) }
