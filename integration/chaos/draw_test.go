//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// The README's pair: the same schedule with redsync, and with the library.
const (
	pairScenario = "restart amnesia between two holders"
	pairMasters  = 3
	redsync      = "redsync"
)

func now() time.Duration { return time.Duration(contender.Now()) }

// pairFile returns the name of the file of one of the pair.
func pairFile(kind string) string { return "chaos-" + shownKind(kind) + ".svg" }

// drawn reports whether somebody wants a picture of the run.
func (r *run) drawn() bool {
	return *pairTo != "" && r.result.Scenario == pairScenario && r.n == pairMasters && (r.ours() || r.kind == redsync)
}

// shownKind is the name of a kind of contender in titles and files.
func shownKind(kind string) string {
	if kind == library {
		return "quorumlock"
	}
	return kind
}

// draw returns the picture of what was done to masters, and of the events that were judged.
func (r *run) draw(events []history.Event) *timeline.Picture {
	p := &timeline.Picture{Title: fmt.Sprintf("%s: %s, %d masters", shownKind(r.kind), r.result.Scenario, r.n)}
	for i := range r.servers {
		rows := r.tracks.Rows(ofMaster(i))
		rows[0].Spans = append(rows[0].Spans, timeline.Span{From: time.Duration(contender.At(r.playing)), To: timeline.Open,
			State: timeline.Up}) // also of masters that nobody watches
		p.Rows = append(p.Rows, rows...)
	}
	for _, w := range r.workers {
		row := timeline.Row{Label: fmt.Sprintf("client %d", w.plan.Client)}
		waited(&row, w)
		row.Spans = append(row.Spans, held(events, w.plan)...)
		for _, p := range r.paths {
			if slices.Contains(p.urls(), w.plan.URLs[0]) {
				row.Label += " (" + p.group + ")"
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// held returns a client's holds, and the times in which it held beside another one, as package history judges them.
func held(events []history.Event, by contender.Plan) (all []timeline.Span) {
	span := func(of history.Held, from, to int64, state timeline.State) {
		if of.Client != by.Client {
			return
		}
		s := timeline.Span{From: time.Duration(from), To: time.Duration(to), State: state}
		if by.Kind == library { // else the clock stands in for a token
			s.Token = of.Token
		}
		all = append(all, s)
	}
	for _, of := range history.Holds(events) {
		span(of, of.From, of.To, timeline.Holds)
	}
	for _, o := range history.Overlaps(events) {
		for _, of := range o.Holds {
			span(of, o.From, o.To, timeline.Clash)
		}
	}
	return all
}

// waited adds what a client went through by its own reports: when it waited, what it lost.
func waited(row *timeline.Row, w *worker) {
	for _, p := range w.all() {
		at := time.Duration(p.At)
		switch p.Did {
		case contender.Acquired, contender.Refused:
			row.Spans = append(row.Spans, timeline.Span{From: at - p.Took, To: at, State: timeline.Waits})
		case contender.Lost:
			row.Marks = append(row.Marks, timeline.Mark{At: at, Text: "lost"})
		case contender.Stale:
			text := "stale token refused"
			if w.plan.Kind == redsync {
				text = "late write"
			}
			row.Marks = append(row.Marks, timeline.Mark{At: at, Text: text})
		}
	}
}

// writePictures writes the README's pictures, if both are there.
func (r *report) writePictures() error {
	var errs []error
	for _, one := range r.pair() {
		errs = append(errs, os.WriteFile(filepath.Join(*pairTo, pairFile(one.Kind)), []byte(one.Picture.SVG()), 0o644))
	}
	return errors.Join(errs...)
}

// pair returns the README's results: that of redsync, which must have done harm, and the library's, which
// must not. It returns none if they were not both played so.
func (r *report) pair() []*result {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := func(kind string, harm bool) int {
		for i, one := range slices.Backward(r.results) {
			if one.Picture != nil && one.Kind == kind && doubleHold(one) == harm {
				return i
			}
		}
		return -1
	}
	theirs, own := last(redsync, true), last(library, false)
	if theirs < 0 || own < 0 {
		return nil
	}
	return []*result{r.results[theirs], r.results[own]}
}
