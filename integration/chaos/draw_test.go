//go:build unix

package chaos

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	operators "github.com/quorumlock/quorumlock/quorum/operator"
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

// drawing reports whether somebody wants pictures.
func drawing() bool { return *pageTo != "" || *pairTo != "" }

// marked reports whether contenders of the kind mark their masters, and get fencing tokens.
func marked(kind string) bool { return kind != redsync && kind != "counting" }

// shownKind is the name of a kind of contender in titles and files.
func shownKind(kind string) string {
	if marked(kind) {
		return strings.TrimSuffix("quorumlock-"+kind, "-"+library)
	}
	return kind
}

// draw returns the picture of what was done to masters and clients, and of the events that were judged.
func (r *run) draw(events []history.Event) *timeline.Picture {
	p := &timeline.Picture{Title: fmt.Sprintf("%s: %s, %d masters", shownKind(r.kind), r.result.Scenario, r.n), Slots: r.slots}
	for i := range r.Servers {
		rows := r.Notes.Tracks.Rows(ofMaster(i))
		rows[0].Spans = append(rows[0].Spans, timeline.Span{From: time.Duration(contender.At(r.playing)), To: timeline.Open,
			State: timeline.Up}) // also of masters that nobody watches
		p.Rows = append(p.Rows, rows...)
	}
	for _, w := range r.workers {
		rows := r.Notes.Tracks.Rows(ofClient(w))
		waited(&rows[0], w)
		rows[0].Spans = append(rows[0].Spans, held(events, r.slots, w.plan)...)
		for _, p := range r.paths {
			if slices.Contains(p.urls(), w.plan.URLs[0]) {
				rows[0].Label += " (" + p.group + ")"
			}
		}
		p.Rows = append(p.Rows, rows...)
	}
	return p
}

// held returns a client's holds, and the times in which it held alongside another one, as package history judges them.
func held(events []history.Event, slots int, by contender.Plan) (all []timeline.Span) {
	span := func(of history.Held, from, to int64, state timeline.State) {
		if of.Client != by.Client {
			return
		}
		s := timeline.Span{From: time.Duration(from), To: time.Duration(to), State: state,
			Text: strings.TrimSpace(strings.TrimPrefix(of.Name, name))}
		if marked(by.Kind) { // else the clock stands in for a token
			s.Token = of.Token
		}
		all = append(all, s)
	}
	for _, of := range history.Holds(events) {
		span(of, of.From, of.To, timeline.Holds)
	}
	overlaps := history.Overlaps(events)
	if slots > 0 {
		overlaps = append(overlaps, history.Crowds(events, slots)...)
	}
	for _, o := range overlaps {
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
			if !marked(w.plan.Kind) {
				text = "late write"
			}
			row.Marks = append(row.Marks, timeline.Mark{At: at, Text: text})
		}
	}
}

//go:embed page.html.tmpl
var pageText string

// writePictures writes the pictures that are wanted.
func (r *report) writePictures() error {
	r.mu.Lock()
	drawn := slices.DeleteFunc(slices.Clone(r.results), func(one *result) bool { return one.Picture == nil })
	r.mu.Unlock()
	var errs []error
	if *pageTo != "" {
		errs = append(errs, os.MkdirAll(filepath.Dir(*pageTo), 0o755), writePage(*pageTo, drawn))
	}
	for _, one := range r.pair() {
		errs = append(errs, os.MkdirAll(*pairTo, 0o755),
			os.WriteFile(filepath.Join(*pairTo, pairFile(one.Kind)), []byte(one.Picture.SVG()), 0o644))
	}
	return errors.Join(errs...)
}

// pair returns the README's results: redsync's, which must have done harm, and the library's, which
// must not. It returns none unless both were played so.
func (r *report) pair() []*result {
	if *pairTo == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := func(kind string, harm bool) int {
		for i, one := range slices.Backward(r.results) {
			if one.Picture != nil && one.Scenario == pairScenario && one.Masters == pairMasters &&
				one.Kind == kind && doubleHold(one) == harm {
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

// writePage writes a page with the pictures.
func writePage(path string, drawn []*result) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(page.Execute(f, map[string]any{"Date": time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		"Revision": *revision, "Machine": machine(), "Masters": backstage.OfBackend(lab.backend).Kind, "Seed": *seed, "Every": watchEvery,
		"Results": drawn}), f.Close())
}

// SVG and Shows are for the page.
func (r *result) SVG() template.HTML { return template.HTML(r.Picture.SVG()) } // it escapes texts

func (r *result) Shows() string {
	all := scenarios()
	return all[slices.IndexFunc(all, func(s scenario) bool { return s.name == r.Scenario })].shows
}

// watchEvery is how often a master is asked.
const watchEvery = 100 * time.Millisecond

// watch asks each master, by connections of its own, whether it is in quarantine, and which list it has, until
// the returned function is called. It writes nothing. While a master does not answer, what it said last stands:
// the faults cover that.
func (r *run) watch() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	for i := range r.Servers {
		r.watching.Go(func() {
			every := time.NewTicker(watchEvery)
			defer every.Stop()
			said := timeline.Span{State: timeline.Up, Text: "up"}
			r.Notes.Tracks.Add(ofMaster(i), said)
			for last := now(); ctx.Err() == nil; {
				if next, err := r.ask(ctx, i); err == nil && next != said {
					r.Notes.Tracks.End(ofMaster(i), said.Text)
					said = next
					// An empty master must not look up until it is asked: the last fault may have caused the change.
					next.From = last
					if marks := r.Notes.Tracks.Rows(ofMaster(i))[0].Marks; len(marks) > 0 {
						next.From = max(last, marks[len(marks)-1].At)
					}
					r.Notes.Tracks.Add(ofMaster(i), next)
				}
				last = now()
				select {
				case <-ctx.Done():
				case <-every.C:
				}
			}
		})
	}
	return func() {
		cancel()
		r.watching.Wait()
	}
}

// ask returns what a master says of itself.
func (r *run) ask(ctx context.Context, i int) (timeline.Span, error) {
	n, err := node.Open(r.urls(i)[0], node.WithMaxLease(r.lease), node.WithTimeout(nodeTimeout))
	if err != nil {
		return timeline.Span{}, err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	told, err := operators.Check(ctx, n)
	return stateOf(told), err
}

// stateOf returns the state of a master that reports this. Its first list needs no number.
func stateOf(told operators.Report) timeline.Span {
	s := timeline.Span{State: timeline.Up, Text: "up"}
	if told.Quarantine > 0 {
		s = timeline.Span{State: timeline.Quarantine, Text: "quarantine"}
	}
	if told.Generation > 1 {
		s.Text += fmt.Sprintf(", list %d", told.Generation)
	}
	if len(told.Next) > 0 {
		s.Text += fmt.Sprintf(" → %d", told.Generation+1)
	}
	return s
}
