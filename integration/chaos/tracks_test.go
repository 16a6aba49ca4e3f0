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

// tracks is what the harness did to masters and clients, and when: for the picture. The zero value is ready for use.
type tracks struct {
	mu  sync.Mutex
	all map[party]*track
}

// track is what one party went through.
type track struct {
	pictures.Track
	open  map[string]pictures.Span // that have begun, by text
	paths map[string]pictures.Span // the faults on the paths of each group, by group
	since int64                    // of the paths' state
}

// ofLocked returns what a party went through so far. The caller has the mutex.
func (t *tracks) ofLocked(whose party) *track {
	if t.all == nil {
		t.all = map[party]*track{}
	}
	if t.all[whose] == nil {
		t.all[whose] = &track{open: map[string]pictures.Span{}, paths: map[string]pictures.Span{}}
	}
	return t.all[whose]
}

// mark notes something that happens now.
func (t *tracks) mark(whose party, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.ofLocked(whose)
	one.Marks = append(one.Marks, pictures.Mark{At: contender.Now(), Text: text})
}

// begins notes that a state begins now; ends, that the state with this text has ended.
func (t *tracks) begins(whose party, state timeline.State, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ofLocked(whose).open[text] = pictures.Span{From: contender.Now(), To: pictures.Open, State: state, Text: text}
}

func (t *tracks) ends(whose party, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.ofLocked(whose)
	if s, ok := one.open[text]; ok {
		s.To = contender.Now()
		one.Spans = append(one.Spans, s)
		delete(one.open, text)
	}
}

// lasts notes a state that begins now and ends by itself.
func (t *tracks) lasts(whose party, state timeline.State, text string, length time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := contender.Now()
	one := t.ofLocked(whose)
	one.Spans = append(one.Spans, pictures.Span{From: now, To: now + int64(length), State: state, Text: text})
}

// beginsBelow notes a fault on the paths between a group of clients and a master, which may have another state
// meanwhile; endsBelow, the end of all of the group.
func (t *tracks) beginsBelow(whose party, group string, state timeline.State, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.ofLocked(whose)
	one.cutBelow()
	if before, ok := one.paths[group]; ok {
		text, state = before.Text+", "+text, max(state, before.State)
	}
	one.paths[group] = pictures.Span{State: state, Text: text}
}

func (t *tracks) endsBelow(whose party, group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.ofLocked(whose)
	one.cutBelow()
	delete(one.paths, group)
}

// cutBelow ends the span of the paths' faults so far.
func (one *track) cutBelow() {
	now := contender.Now()
	if len(one.paths) > 0 {
		one.Below = append(one.Below, one.pathsUntil(now))
	}
	one.since = now
}

// pathsUntil returns a span for the faults on all paths since the last change.
func (one *track) pathsUntil(end int64) pictures.Span {
	s := pictures.Span{From: one.since, To: end}
	var texts []string
	for _, group := range slices.Sorted(maps.Keys(one.paths)) {
		s.State = max(s.State, one.paths[group].State)
		texts = append(texts, one.paths[group].Text)
	}
	s.Text = strings.Join(texts, ", ")
	s.Detail = s.Text
	return s
}

// track returns a party's track for the picture.
func (t *tracks) track(whose party) pictures.Track {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.ofLocked(whose)
	track := one.Track
	track.Spans, track.Below, track.Marks = slices.Clone(one.Spans), slices.Clone(one.Below), slices.Clone(one.Marks)
	for _, text := range slices.Sorted(maps.Keys(one.open)) {
		track.Spans = append(track.Spans, one.open[text])
	}
	if len(one.paths) > 0 {
		track.Below = append(track.Below, one.pathsUntil(pictures.Open))
	}
	return track
}

// firstMark returns when the first mark in (from, to] was, or to if there was none.
func (t *tracks) firstMark(whose party, from, to int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.ofLocked(whose).Marks {
		if m.At > from && m.At <= to {
			return m.At
		}
	}
	return to
}
