package history_test

// This file checks a history as others can: with porcupine, and nothing of ours.

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

var recorded = flag.String("history", "", "check this file of make chaos, docs/reports/chaos-history.json.gz")

// event is a line of a history.
type event struct {
	Client                 int
	Name, Owner, Kind      string
	Depth                  int
	Token                  uint64
	Shared                 bool
	Call, Return, Deadline int64 // nanoseconds; a Return of 2^63-1 is unknown
}

// lock is the state of a name, and the input of an operation: the owner gets it, or it ends.
type lock struct {
	owner string
	token uint64
	ends  bool
}

var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		is, op := state.(lock), input.(lock)
		if op.ends {
			return is.owner == op.owner, lock{token: is.token}
		}
		return is.owner == "" && op.token > is.token, op
	},
}

// operations returns those of each name. A hold ends between the instant at which its holder stopped believing and the one
// at which that was seen.
func operations(events []event) map[string][]porcupine.Operation {
	all, ends, got := map[string][]porcupine.Operation{}, map[string]event{}, map[string]event{}
	for _, e := range events {
		if e.Depth > 1 || e.Shared || e.Kind == "acquired" && e.Return == math.MaxInt64 && e.Token == 0 {
			continue
		}
		key := e.Name + " " + e.Owner
		if e.Kind == "acquired" { // once more when a renewal has moved the deadline
			e.Deadline = max(e.Deadline, got[key].Deadline)
			got[key] = e
		} else if end, ok := ends[key]; !ok || e.Call < end.Call {
			e.Deadline = max(e.Deadline, end.Deadline)
			ends[key] = e
		}
	}
	for key, e := range got {
		all[e.Name] = append(all[e.Name], porcupine.Operation{ClientId: e.Client, Input: lock{owner: e.Owner, token: e.Token}, Call: e.Call, Return: e.Return})
		end, ok := ends[key]
		if !ok {
			end.Call, end.Return = math.MaxInt64, math.MaxInt64
		}
		if deadline := max(e.Deadline, end.Deadline); deadline > 0 && deadline < end.Call {
			end.Call = max(deadline, e.Call)
		}
		all[e.Name] = append(all[e.Name], porcupine.Operation{ClientId: e.Client, Input: lock{owner: e.Owner, ends: true}, Call: end.Call, Return: max(end.Return, end.Call)})
	}
	return all
}

// A history of make chaos has one holder at a time, with greater tokens: by two files that differ in one token, and by the
// one that -history names.
func TestAsOthersCheckIt(t *testing.T) {
	const good = `{"Name":"a","Owner":"x","Kind":"acquired","Token":3,"Call":1,"Return":2}
{"Name":"a","Owner":"x","Kind":"released","Call":5,"Return":8}
{"Name":"a","Owner":"y","Kind":"acquired","Token":4,"Call":3,"Return":6}
`
	for text, want := range map[string]bool{
		good: true,
		strings.Replace(good, `"Token":4`, `"Token":3`, 1):                                   false,
		strings.Replace(good, `"Call":5,"Return":8`, `"Call":7,"Return":8`, 1):               false, // two holders
		strings.Replace(good, `"Token":3,`, `"Token":3,"Deadline":4,`, 1):                    true,
		strings.Replace(good, `"Call":5,"Return":8`, `"Call":7,"Return":8,"Deadline":4`, 1):  true, // it had stopped believing
		strings.Replace(good, `"Call":5,"Return":8`, `"Call":7,"Return":8,"Deadline":99`, 1): false,
	} {
		if linearizable(t, bufio.NewScanner(strings.NewReader(text))) != want {
			t.Errorf("want %v of\n%s", want, text)
		}
	}
	if *recorded == "" {
		return
	}
	f, err := os.Open(*recorded)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if !linearizable(t, bufio.NewScanner(unzipped)) {
		t.Error("the history is not one of a lock")
	}
}

func linearizable(t *testing.T, lines *bufio.Scanner) bool {
	var events []event
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if lines.Err() != nil || len(events) == 0 {
		t.Fatalf("%d events, %v", len(events), lines.Err())
	}
	all := true
	for name, of := range operations(events) {
		ok := porcupine.CheckOperations(model, of)
		t.Logf("%q: %d operations: %v", name, len(of), ok)
		all = all && ok
	}
	return all
}
