//go:build unix

package chaos

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// judge ends the contenders, counts their events and checks them.
func (r *run) judge() {
	r.t.Helper()
	res := r.result
	for _, w := range r.workers {
		w.order(contender.Stop)
	}
	var ended error
	for _, w := range r.workers {
		ended = errors.Join(ended, w.end(soon))
	}
	r.expect(ended == nil, "all contenders ended in good order: %v", ended)
	res.Orphans = r.orphans()
	r.expect(res.Orphans == 0, "no key is left %v after the last release: %d are", orphanBound, res.Orphans)

	did := map[string]int{}
	for _, w := range r.workers {
		for _, p := range w.all() {
			did[p.Did]++
		}
	}
	res.Acquired, res.Refused, res.Lost = did[contender.Acquired], did[contender.Refused], did[contender.Lost]
	res.Tried = res.Acquired + res.Refused
	r.expect(res.Acquired > 0, "the lock was acquired at least once")
	res.Faults, res.Failovers = r.Notes.Told(), r.failovers()

	events := r.events()
	if *reportTo != "" && res.Kind == library && res.Scenario == "random walk over all faults" && res.Masters == 3 {
		if err := leave(strings.TrimSuffix(*reportTo, ".md")+"-history.json.gz", events); err != nil {
			r.t.Error(err)
		}
	}
	for _, v := range history.Check(events, history.Options{HonestClocks: true, ViewDir: r.dir}) {
		if v.Rule == "overlap" {
			res.DoubleHolds++
		} else {
			res.Other++
		}
		r.expect(false, "history: %v", v)
	}
	if r.slots > 0 {
		for _, v := range history.CheckCrowd(events, r.slots) {
			res.DoubleHolds++
			r.expect(false, "history: %v", v)
		}
	}
	if res.isDrawn() {
		r.endWatch()
		res.Picture = r.draw(events)
	}
	from, gap := longestGap(events)
	res.Gap = gap
	r.t.Logf("longest without a holder: %v from +%v", gap, time.Duration(from-contender.At(r.Notes.Began)).Round(time.Millisecond))
	stale, lost, violations := r.registers.check()
	res.Stale, res.LostWrites = stale, lost
	for _, v := range violations {
		r.expect(false, "%v", v)
	}
}

// orphans counts the locks that are left on the masters after orphanBound.
func (r *run) orphans() int {
	r.t.Helper()
	var left []string
	var err error
	bound := orphanBound
	if r.Groups != nil {
		bound += r.lease // a failover may lose a release
	}
	if !poll.Until(bound, func() bool { left, err = r.keys(); return err == nil && len(left) == 0 }) {
		r.t.Logf("left: %q", left)
	}
	if err != nil {
		r.t.Errorf("the masters do not answer at the end: %v", err)
	}
	return len(left)
}

// longestGap is the longest time between holders of the name, or of its slots, from the first to the last, and its
// begin.
func longestGap(events []history.Event) (from int64, gap time.Duration) {
	holds := slices.DeleteFunc(history.Holds(events), func(h history.Held) bool { return !strings.HasPrefix(h.Name, name) }) // a slot's begins with it
	slices.SortFunc(holds, func(a, b history.Held) int { return cmp.Compare(a.From, b.From) })
	var end int64
	for _, h := range holds {
		if d := time.Duration(h.From - end); end != 0 && d > gap {
			from, gap = end, d
		}
		end = max(end, h.To)
	}
	return from, gap
}

type result struct {
	Scenario, Kind string
	Masters        int
	Seed           uint64
	Faults         string

	Tried, Acquired, Refused, Lost int
	DoubleHolds, Other             int // Other: the other violations of the history
	Stale, LostWrites, Orphans     int
	Failovers                      int // to a replica
	Gap, Took                      time.Duration
	Notes                          []string

	Picture *timeline.Picture // nil unless it is drawn
}

func (r *result) String() string {
	return fmt.Sprintf("%s, %s, %d masters: tried %d, acquired %d, refused %d, lost %d, double holds %d, stale writes refused %d, lost writes %d, orphan keys %d, failovers %d, longest without a holder %v; faults: %s; took %v; %v",
		r.Scenario, r.Kind, r.Masters, r.Tried, r.Acquired, r.Refused, r.Lost, r.DoubleHolds, r.Stale, r.LostWrites, r.Orphans, r.Failovers,
		r.Gap.Round(time.Millisecond), r.Faults, r.Took.Round(100*time.Millisecond), r.Notes)
}

// Again is the command that plays the scenario once more, with the same seed.
func (r *result) Again() string {
	test, more := "TestChaos/"+r.Scenario, ""
	if r.Kind != library {
		test, more = fmt.Sprintf("TestControls/%s/%s", r.Scenario, r.Kind), " -chaos.full"
	}
	if strings.Contains(r.Scenario, "walk") {
		more += fmt.Sprintf(" -chaos.walk=%v", *walkFor)
	}
	if *stretch != 1 {
		more += fmt.Sprintf(" -chaos.stretch=%d", *stretch)
	}
	if *race != testkit.Race() {
		more += fmt.Sprintf(" -chaos.race=%v", *race)
	}
	if *wanted != "auto" {
		more += " -chaos.backend=" + *wanted
	}
	detector := ""
	if testkit.Race() {
		detector = "-race "
	}
	return fmt.Sprintf("go test -C integration %s-v ./chaos -run '%s' -chaos.masters=%d -chaos.seed=%d%s", detector, test, r.Masters, r.Seed, more)
}

// leave writes a history for others to check: docs/chaos-tests.md says how.
func leave(path string, events []history.Event) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zipped := gzip.NewWriter(f)
	return errors.Join(history.WriteJSON(zipped, events...), zipped.Close())
}
