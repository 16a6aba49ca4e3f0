//go:build unix

package chaos

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/integration/pictures"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// party is a master or a client of a run. Its number is the one in the log.
type party struct {
	kind   string
	number int
}

var nobody party

func ofMaster(i int) party     { return party{"master", i + 1} }
func ofClient(w *worker) party { return party{"client", w.plan.Client} }

// diary is what the harness did to masters and clients, and when: for the picture. The zero value is ready for use.
type diary struct {
	mu    sync.Mutex
	lives map[party]*life
}

// life is what one party went through.
type life struct {
	pictures.Track
	open  map[string]pictures.Span // that have begun, by text
	paths map[string]pictures.Span // the faults on the paths of each group, by group
	since int64                    // of the paths' state
}

// of returns a party's life. The caller has the mutex.
func (d *diary) ofLocked(whose party) *life {
	if d.lives == nil {
		d.lives = map[party]*life{}
	}
	if d.lives[whose] == nil {
		d.lives[whose] = &life{open: map[string]pictures.Span{}, paths: map[string]pictures.Span{}}
	}
	return d.lives[whose]
}

// mark notes something that happens now.
func (d *diary) mark(whose party, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ofLocked(whose)
	l.Marks = append(l.Marks, pictures.Mark{At: contender.Now(), Text: text})
}

// begins notes that a state begins now; ends, that it has ended.
func (d *diary) begins(whose party, state timeline.State, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ofLocked(whose).open[text] = pictures.Span{From: contender.Now(), To: pictures.Open, State: state, Text: text}
}

func (d *diary) ends(whose party, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ofLocked(whose)
	if s, ok := l.open[text]; ok {
		s.To = contender.Now()
		l.Spans = append(l.Spans, s)
		delete(l.open, text)
	}
}

// lasts notes a state that begins now and ends by itself.
func (d *diary) lasts(whose party, state timeline.State, text string, length time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := contender.Now()
	l := d.ofLocked(whose)
	l.Spans = append(l.Spans, pictures.Span{From: now, To: now + int64(length), State: state, Text: text})
}

// below notes a fault between a group of clients and a master, which may have another state meanwhile;
// healed, the end of all of them.
func (d *diary) below(whose party, group string, state timeline.State, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ofLocked(whose)
	l.turn()
	if before, ok := l.paths[group]; ok {
		text, state = before.Text+", "+text, max(state, before.State)
	}
	l.paths[group] = pictures.Span{State: state, Text: text}
}

func (d *diary) healed(whose party, group string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ofLocked(whose)
	l.turn()
	delete(l.paths, group)
}

// turn ends the span of the paths' faults so far.
func (l *life) turn() {
	now := contender.Now()
	if len(l.paths) > 0 {
		l.Below = append(l.Below, l.pathsUntil(now))
	}
	l.since = now
}

// pathsUntil returns a span for the faults on all paths since the last change.
func (l *life) pathsUntil(end int64) pictures.Span {
	s := pictures.Span{From: l.since, To: end}
	var texts []string
	for _, group := range slices.Sorted(maps.Keys(l.paths)) {
		s.State = max(s.State, l.paths[group].State)
		texts = append(texts, l.paths[group].Text)
	}
	s.Text = strings.Join(texts, ", ")
	s.Detail = s.Text
	return s
}

// track returns what a party went through so far.
func (d *diary) track(whose party) pictures.Track {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ofLocked(whose)
	track := l.Track
	track.Spans, track.Below, track.Marks = slices.Clone(l.Spans), slices.Clone(l.Below), slices.Clone(l.Marks)
	for _, text := range slices.Sorted(maps.Keys(l.open)) {
		track.Spans = append(track.Spans, l.open[text])
	}
	if len(l.paths) > 0 {
		track.Below = append(track.Below, l.pathsUntil(pictures.Open))
	}
	return track
}

// firstMark returns when the first mark in (from, to] was, or to if there was none.
func (d *diary) firstMark(whose party, from, to int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.ofLocked(whose).Marks {
		if m.At > from && m.At <= to {
			return m.At
		}
	}
	return to
}
