package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/timeline"
)

// widest bounds the picture's lines on a wide terminal.
const widest = 120

// chart is what the demo's masters and workers go through, for the picture at its end. It is safe for concurrent use.
type chart struct {
	mu      sync.Mutex
	begun   time.Time
	masters [masterCount]lane
	workers [2]lane
}

// lane is one of them. Its last span goes on.
type lane struct {
	spans  []timeline.Span
	marks  []timeline.Mark
	tokens []uint64 // of each span; 0 for one that is no hold
}

const goesOn time.Duration = -1 // the To of a span

// become ends the state of a lane, and begins another one; state 0 for none.
func (c *chart) become(l *lane, state timeline.State, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomeLocked(l, time.Since(c.begun), timeline.Span{State: state, Text: text})
}

func (c *chart) becomeLocked(l *lane, at time.Duration, next timeline.Span) {
	if n := len(l.spans); n > 0 && (l.spans[n-1].To == goesOn || l.spans[n-1].To > at) {
		l.spans[n-1].To = at
	}
	if next.State != 0 {
		next.From, next.To = at, goesOn
		l.spans, l.tokens = append(l.spans, next), append(l.tokens, 0)
	}
}

// hold begins a hold with a token.
func (c *chart) hold(l *lane, token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.becomeLocked(l, time.Since(c.begun), timeline.Span{State: timeline.Holds, Detail: fmt.Sprintf("token %d", token)})
	l.tokens[len(l.tokens)-1] = token
}

func (c *chart) mark(l *lane, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.marks = append(l.marks, timeline.Mark{At: time.Since(c.begun), Text: text})
}

// quarantine notes how long a master says that its quarantine lasts from now on. It is up after that.
func (c *chart) quarantine(l *lane, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(l.spans); n > 0 && l.spans[n-1].State == timeline.Quarantine && left > 0 {
		l.spans[n-1].To = time.Since(c.begun) + left
	}
}

// picture returns what happened so far.
func (c *chart) picture() *timeline.Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Since(c.begun)
	p := &timeline.Picture{Title: "One lock over five masters", Verdict: "Never two holders of the lock",
		Note: "#1, #2, …: fencing tokens, numbered from the lowest."}
	for i := range c.masters {
		p.Rows = append(p.Rows, timeline.Row{Label: masterName(i), Spans: c.masters[i].seen(now),
			Marks: c.masters[i].marks})
	}
	var tokens []uint64
	for i := range c.workers {
		tokens = append(tokens, c.workers[i].tokens...)
	}
	slices.Sort(tokens)
	tokens = slices.DeleteFunc(slices.Compact(tokens), func(token uint64) bool { return token == 0 })
	var held [2][]timeline.Span
	for i := range c.workers {
		l := &c.workers[i]
		row := timeline.Row{Label: "worker " + string(rune('A'+i)), Spans: l.seen(now), Marks: l.marks}
		for k := range l.spans {
			if rank, ok := slices.BinarySearch(tokens, l.tokens[k]); ok && row.Spans[k].State == timeline.Holds {
				row.Spans[k].Text = fmt.Sprintf("#%d", rank+1)
				held[i] = append(held[i], row.Spans[k])
			}
		}
		p.Rows = append(p.Rows, row)
	}
	both := bothHold(held[0], held[1])
	for _, s := range both {
		p.Verdict = "Two holders of the lock"
		for i := range c.workers {
			row := &p.Rows[masterCount+i]
			row.Spans = append(row.Spans, s)
		}
	}
	p.Rows[0].Head, p.Rows[masterCount].Head = "masters", "workers"
	p.About = fmt.Sprintf("A timeline of the demo's %.0f seconds. %s.", now.Seconds(), p.Verdict)
	return p
}

// seen returns the spans, up to now.
func (l *lane) seen(now time.Duration) []timeline.Span {
	spans := slices.Clone(l.spans)
	n := len(spans)
	if n == 0 {
		return nil
	}
	switch last := &spans[n-1]; {
	case last.To == goesOn || last.To > now:
		last.To = now
	case last.State == timeline.Quarantine:
		spans = append(spans, timeline.Span{From: last.To, To: now, State: timeline.Up, Text: "up"})
	}
	return spans
}

// bothHold returns the times in which a hold of a and one of b overlap.
func bothHold(a, b []timeline.Span) (both []timeline.Span) {
	for _, one := range a {
		for _, other := range b {
			if from, to := max(one.From, other.From), min(one.To, other.To); from < to {
				both = append(both, timeline.Span{From: from, To: to, State: timeline.Clash,
					Text: one.Text + ", " + other.Text})
			}
		}
	}
	return both
}

// lineStyle returns how wide lines to out may be, and whether they may have colours: 80 and none if out is no
// terminal.
func lineStyle(out io.Writer) (width int, colour bool) {
	file, ok := out.(*os.File)
	if ok {
		width, _ = terminalSize(file)
	}
	if width == 0 {
		return 80, false
	}
	return min(width, widest), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// lines returns the picture as it is written to out.
func lines(p *timeline.Picture, out io.Writer) (string, error) {
	var text bytes.Buffer
	width, colour := lineStyle(out)
	err := p.Write(&text, width, colour)
	return text.String(), err
}

// pictureFile is the file of -svg. A nil one is none.
type pictureFile struct {
	*os.File
	fresh bool // there was none before
}

// openPicture opens the file, or makes one, and does not yet change what is in it.
func openPicture(path string) (*pictureFile, error) {
	if path == "" {
		return nil, nil
	}
	is, err := os.Stat(path)
	if err == nil && !is.Mode().IsRegular() && !is.IsDir() { // to open a pipe that nobody reads would take for ever
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f := &pictureFile{fresh: os.IsNotExist(err)}
	if f.File, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, err // it says if the path is a directory
	}
	return f, nil
}

// write replaces what is in the file by the picture, and closes it.
func (f *pictureFile) write(p *timeline.Picture) error {
	if f == nil {
		return nil
	}
	var svg bytes.Buffer
	err := p.WriteSVG(&svg)
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.Write(svg.Bytes())
		}
	}
	if err != nil {
		f.abandon()
		return err
	}
	return f.Close()
}

// abandon closes the file without a picture. It removes one that was not there before.
func (f *pictureFile) abandon() {
	if f == nil {
		return
	}
	f.Close()
	if f.fresh {
		os.Remove(f.Name())
	}
}
