//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	operators "github.com/quorumlock/quorumlock/quorum/operator"
)

// The README's pair of pictures: the same schedule with redsync, and with the library.
const (
	pairScenario = "restart amnesia between two holders"
	pairMasters  = 3
	redsync      = "redsync"
)

func now() time.Duration { return time.Duration(contender.Now()) }

// shown is the name of a kind of the pair in titles and files.
func shown(kind string) string {
	if kind == library {
		return "quorumlock"
	}
	return kind
}

func pairFile(kind string) string { return "chaos-" + shown(kind) + ".svg" }

// isDrawn reports whether the run may be one of the pair.
func (r *result) isDrawn() bool {
	return *pairTo != "" && r.Scenario == pairScenario && r.Masters == pairMasters && (r.Kind == library || r.Kind == redsync)
}

// draw returns the picture of what was done to the masters, and of the events that were judged.
func (r *run) draw(events []history.Event) *timeline.Picture {
	p := &timeline.Picture{Title: fmt.Sprintf("%s: %s, %d masters", shown(r.kind), r.result.Scenario, r.n)}
	for i := range r.Servers {
		rows := r.Notes.Tracks.Rows(r.Names[i])
		rows[0].Spans = append(rows[0].Spans, timeline.Span{From: time.Duration(contender.At(r.playing)), To: timeline.Open,
			State: timeline.Up}) // also of redsync's masters, which nobody watches
		p.Rows = append(p.Rows, rows...)
	}
	for _, w := range r.workers {
		row := timeline.Row{Label: fmt.Sprintf("client %d", w.plan.Client), Spans: held(events, w.plan)}
		waited(&row, w)
		for _, p := range r.paths {
			if slices.ContainsFunc(p.urls(), func(url string) bool { return r.known(url) == w.plan.URLs[0] }) {
				row.Label += " (" + p.group + ")"
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// held returns a client's holds, and the times in which it held alongside another one, as package history judges them.
func held(events []history.Event, by contender.Plan) (all []timeline.Span) {
	span := func(of history.Held, from, to int64, state timeline.State) {
		if of.Client != by.Client {
			return
		}
		s := timeline.Span{From: time.Duration(from), To: time.Duration(to), State: state}
		if by.Kind == library { // redsync has no tokens
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
	late := "late write"
	if w.plan.Kind == library {
		late = "stale token refused"
	}
	for _, p := range w.all() {
		at := time.Duration(p.At)
		switch p.Did {
		case contender.Acquired, contender.Refused:
			row.Spans = append(row.Spans, timeline.Span{From: at - p.Took, To: at, State: timeline.Waits})
		case contender.Lost:
			row.Marks = append(row.Marks, timeline.Mark{At: at, Text: "lost"})
		case contender.Stale:
			row.Marks = append(row.Marks, timeline.Mark{At: at, Text: late})
		}
	}
}

// writePair writes the pictures, if there are both.
func (r *report) writePair() (err error) {
	for _, one := range r.pair() {
		err = errors.Join(err, os.MkdirAll(*pairTo, 0o755),
			os.WriteFile(filepath.Join(*pairTo, pairFile(one.Kind)), []byte(one.Picture.SVG()), 0o644))
	}
	return err
}

// pair returns the last result of redsync that did harm, and the last of the library that did none; or none unless there
// are both.
func (r *report) pair() []*result {
	var theirs, own *result
	for _, one := range r.results {
		switch {
		case one.Picture == nil:
		case one.Kind == redsync && doubleHold(one):
			theirs = one
		case one.Kind == library && !doubleHold(one):
			own = one
		}
	}
	if theirs == nil || own == nil {
		return nil
	}
	return []*result{theirs, own}
}

const watchEvery = 100 * time.Millisecond

// watch notes, until the returned function is called, when each master is in quarantine, as it says itself. While it
// does not answer, what it said last stands: the faults cover that.
func (r *run) watch() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for i := range r.Servers {
		watching.Go(func() {
			every := time.NewTicker(watchEvery)
			defer every.Stop()
			for was, last := false, now(); ctx.Err() == nil; last = now() {
				if is, err := r.isQuarantined(ctx, i); err == nil && is != was {
					if was = is; is { // since the restart, if there was one since the last look
						r.Notes.Tracks.Add(r.Names[i], timeline.Span{From: last, State: timeline.Quarantine, Text: "quarantine"})
					} else {
						r.Notes.Tracks.End(r.Names[i], "quarantine")
					}
				}
				select {
				case <-ctx.Done():
				case <-every.C:
				}
			}
		})
	}
	return func() { cancel(); watching.Wait() }
}

func (r *run) isQuarantined(ctx context.Context, i int) (bool, error) {
	n, err := node.Open(r.urls(i)[0], node.WithMaxLease(r.lease), node.WithTimeout(nodeTimeout))
	if err != nil {
		return false, err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	told, err := operators.Check(ctx, n)
	return told.Quarantine > 0, err
}
