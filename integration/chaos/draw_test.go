//go:build unix

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/integration/pictures"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// The README's pair: the same schedule with redsync, and with the library.
const (
	pairScenario = "restart amnesia between two holders"
	pairMasters  = 3
	redsync      = "redsync"
)

// pairFile returns the name of the file of one of the pair.
func pairFile(kind string) string { return "chaos-" + shownKind(kind) + ".svg" }

// drawing reports whether somebody wants pictures.
func drawing() bool { return *drawTo != "" || *pageTo != "" || *pairTo != "" }

// marked reports whether contenders of the kind mark their masters, and get fencing tokens.
func marked(kind string) bool { return kind != redsync && kind != "counting" }

// shownKind is the name of a kind of contender in titles and files.
func shownKind(kind string) string {
	switch {
	case kind == library:
		return "quorumlock"
	case marked(kind):
		return "quorumlock-" + kind
	default:
		return kind
	}
}

// view is porcupine's view of a history with violations: a page of HTML.
type view struct {
	name string
	page []byte
}

// makePicture makes the picture of the events that were judged, if somebody wants it.
func (r *run) makePicture(events []history.Event) {
	r.t.Helper()
	if !drawing() {
		return
	}
	r.watcher.end()
	drawn := pictures.Run{Title: fmt.Sprintf("%s: %s, %d masters", shownKind(r.kind), r.result.Scenario, r.n),
		Name: name, Slots: r.slots, Tokens: marked(r.kind), Events: events}
	began := contender.At(r.playing)
	for i := range r.servers {
		track := r.tracks.track(ofMaster(i))
		track.Label = fmt.Sprintf("master %d", i+1)
		track.Spans = slices.Concat(r.watcher.of(i, began), track.Spans)
		drawn.Masters = append(drawn.Masters, track)
	}
	leaveOutTheOnlyList(drawn.Masters)
	for _, w := range r.workers {
		drawn.Clients = append(drawn.Clients, r.trackOf(w))
	}
	r.result.picture = pictures.Of(drawn)
	found, _ := filepath.Glob(filepath.Join(r.dir, "history-*.html"))
	for _, path := range found {
		page, err := os.ReadFile(path)
		r.must2(err)
		r.result.views = append(r.result.views, view{filepath.Base(path), page})
	}
}

// leaveOutTheOnlyList takes the list's number out of the masters' texts if all have the same one throughout.
func leaveOutTheOnlyList(masters []pictures.Track) {
	const before = ", list "
	found := map[string]bool{}
	for _, m := range masters {
		for _, s := range m.Spans {
			if _, list, ok := strings.Cut(s.Text, before); ok {
				found[list] = true
			}
		}
	}
	if len(found) != 1 {
		return
	}
	for _, m := range masters {
		for k := range m.Spans {
			m.Spans[k].Text, _, _ = strings.Cut(m.Spans[k].Text, before)
		}
	}
}

// trackOf returns what a client went through, by its own reports: when it waited, what it lost.
func (r *run) trackOf(w *worker) pictures.Track {
	track := r.tracks.track(ofClient(w))
	track.Client, track.Label = w.plan.Client, fmt.Sprintf("client %d", w.plan.Client)
	for _, p := range r.paths {
		if i := slices.Index(p.urls(), w.plan.URLs[0]); i >= 0 {
			track.Label += " (" + p.group + ")"
		}
	}
	var waits []pictures.Span
	for _, p := range w.all() {
		switch p.Did {
		case contender.Acquired, contender.Refused:
			waits = append(waits, pictures.Span{From: p.At - int64(p.Took), To: p.At, State: timeline.Waits,
				Detail: p.Err})
		case contender.Lost:
			track.Marks = append(track.Marks, pictures.Mark{At: p.At, Text: "lost"})
		case contender.Stale:
			text := "stale token refused"
			if !marked(w.plan.Kind) { // it has no token; the clock stands in for it
				text = "late write"
			}
			track.Marks = append(track.Marks, pictures.Mark{At: p.At, Text: text})
		}
	}
	track.Spans = slices.Concat(waits, track.Spans)
	return track
}

var noFileLetter = regexp.MustCompile(`[^a-z0-9]+`)

// slug is the result's name in files.
func (r *result) slug() string {
	return fmt.Sprintf("%s-%d-%s", noFileLetter.ReplaceAllString(strings.ToLower(r.Scenario), "-"), r.Masters,
		shownKind(r.Kind))
}

// svg writes the result's picture to a file.
func (r *result) svg(path string) error {
	var svg bytes.Buffer
	if err := r.picture.WriteSVG(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o644)
}

// writePictures writes the pictures that are wanted.
func (r *report) writePictures() error {
	r.mu.Lock()
	drawn := slices.DeleteFunc(slices.Clone(r.results), func(one *result) bool { return one.picture == nil })
	r.mu.Unlock()
	var errs []error
	if *drawTo != "" {
		errs = append(errs, os.MkdirAll(*drawTo, 0o755))
		for _, one := range drawn {
			errs = append(errs, one.svg(filepath.Join(*drawTo, one.slug()+".svg")))
		}
	}
	if *pageTo != "" {
		errs = append(errs, os.MkdirAll(filepath.Dir(*pageTo), 0o755), writePage(*pageTo, drawn))
	}
	if *pairTo != "" {
		errs = append(errs, os.MkdirAll(*pairTo, 0o755))
		for _, one := range r.pair() {
			errs = append(errs, one.svg(filepath.Join(*pairTo, pairFile(one.Kind))))
		}
	}
	return errors.Join(errs...)
}

// pair returns the README's results: that of redsync, which must have done harm, and the library's, which
// must not. It returns none if they were not both played so.
func (r *report) pair() []*result {
	if *pairTo == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := func(kind string, harm bool) int {
		for i, one := range slices.Backward(r.results) {
			if one.picture != nil && one.Scenario == pairScenario && one.Masters == pairMasters &&
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

// writePage writes a page with the pictures, and porcupine's views to a directory beside it.
func writePage(path string, drawn []*result) error {
	page := pictures.Page{Title: "Chaos", Facts: []string{
		fmt.Sprintf("%s; quorumlock %s; %s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), *revision, machine()),
		"masters: " + lab.backend.kind(),
		fmt.Sprintf("seed %d", *seed),
		fmt.Sprintf("A master's row shows its faults, and its list and quarantine as the master itself reports them "+
			"every %v: nothing of that for contenders that do not mark their masters. A client's row shows "+
			"what it held, and when another one held too, by the history that was judged.", watchEvery),
	}}
	beside := strings.TrimSuffix(path, filepath.Ext(path)) + "-histories"
	var errs []error
	for _, one := range drawn {
		shot := pictures.Shot{Picture: one.picture, Notes: one.Notes, Again: one.Again()}
		for _, s := range scenarios() {
			if s.name == one.Scenario {
				shot.Shows = s.shows
			}
		}
		for _, v := range one.views {
			file := one.slug() + "-" + v.name
			errs = append(errs, os.MkdirAll(beside, 0o755), os.WriteFile(filepath.Join(beside, file), v.page, 0o644))
			shot.Views = append(shot.Views, filepath.Base(beside)+"/"+file)
		}
		page.Shots = append(page.Shots, shot)
	}
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, os.WriteFile(path, text.Bytes(), 0o644))...)
}
