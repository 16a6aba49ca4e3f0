// Package pictures draws a run of a scenario: masters with their faults, clients with what they held.
// The holds, and the times in which two clients held at once, come from the judged history, by the
// functions with which package history judges it. Package timeline draws; this one decides what. Pictures of
// several runs go on one [Page].
package pictures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// Run is a run of a scenario. Its times are nanoseconds on the clock of its events.
type Run struct {
	Title   string
	Name    string // the lock that most clients ask for: their holds need no name
	Slots   int    // of the semaphore that clients contend for; 0 for a lock
	Tokens  bool   // whether the contenders get fencing tokens; else events have a clock in their place
	Masters []Track
	Clients []Track
	Events  []history.Event
}

// Track is what a master or a client went through, beside the history.
type Track struct {
	Label  string
	Client int // its number in the events; 0 for a master
	Spans  []Span
	Below  []Span
	Marks  []Mark
}

// Span is a time in a state. A To of [Open] is the end of the picture.
type Span struct {
	From, To     int64
	State        timeline.State
	Text, Detail string
}

// Open is the To of a span whose end is not known.
const Open int64 = math.MaxInt64

// Mark is something that happened in an instant.
type Mark struct {
	At   int64
	Text string
}

// Of returns the picture of a run.
func Of(r Run) *timeline.Picture {
	f := &frame{Run: r, holds: history.Holds(r.Events), overlaps: history.Overlaps(r.Events)}
	if r.Slots > 0 {
		f.overlaps = append(f.overlaps, history.Crowds(r.Events, r.Slots)...)
	}
	f.measure()
	f.rank()
	p := &timeline.Picture{Title: r.Title, Verdict: f.verdict()}
	p.About = fmt.Sprintf("A timeline of %.1f s with a row for each of %d masters and %d clients. %s.",
		time.Duration(f.end-f.begin).Seconds(), len(r.Masters), len(r.Clients), p.Verdict)
	if r.Tokens {
		p.Note = "#1, #2, …: a name's fencing tokens, numbered from the lowest."
	}
	for i, track := range r.Masters {
		row := f.row(track)
		if i == 0 {
			row.Head = "masters"
		}
		p.Rows = append(p.Rows, row)
	}
	for i, track := range r.Clients {
		row := f.row(track)
		row.Spans = append(row.Spans, f.held(track.Client)...)
		if i == 0 {
			row.Head = "clients"
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// frame is a picture that is being made.
type frame struct {
	Run
	holds      []history.Held
	overlaps   []history.Overlap
	begin, end int64
	ranks      map[string]map[uint64]int // of tokens, by name
}

// measure finds the first and the last instant that is known.
func (f *frame) measure() {
	f.begin, f.end = math.MaxInt64, math.MinInt64
	known := func(all ...int64) {
		for _, at := range all {
			if at != Open {
				f.begin, f.end = min(f.begin, at), max(f.end, at)
			}
		}
	}
	for _, of := range f.holds {
		known(of.From, of.To)
	}
	for _, track := range slices.Concat(f.Masters, f.Clients) {
		for _, s := range slices.Concat(track.Spans, track.Below) {
			known(s.From, s.To)
		}
		for _, m := range track.Marks {
			known(m.At)
		}
	}
	if f.begin > f.end {
		f.begin, f.end = 0, 0
	}
}

// rank numbers the tokens of each name.
func (f *frame) rank() {
	f.ranks = map[string]map[uint64]int{}
	tokens := map[string][]uint64{}
	for _, of := range f.holds {
		tokens[of.Name] = append(tokens[of.Name], of.Token)
	}
	for name, all := range tokens {
		slices.Sort(all)
		f.ranks[name] = map[uint64]int{}
		for i, token := range slices.Compact(all) {
			f.ranks[name][token] = i + 1
		}
	}
}

func (f *frame) at(instant int64) time.Duration { return time.Duration(min(instant, f.end) - f.begin) }

func (f *frame) row(track Track) timeline.Row {
	row := timeline.Row{Label: track.Label}
	convert := func(spans []Span) (all []timeline.Span) {
		for _, s := range spans {
			all = append(all, timeline.Span{From: f.at(s.From), To: f.at(s.To), State: s.State, Text: s.Text,
				Detail: s.Detail})
		}
		return all
	}
	row.Spans, row.Below = convert(track.Spans), convert(track.Below)
	for _, m := range track.Marks {
		row.Marks = append(row.Marks, timeline.Mark{At: f.at(m.At), Text: m.Text})
	}
	return row
}

// held returns a client's holds, and the times in which another one held, too.
func (f *frame) held(client int) (all []timeline.Span) {
	for _, of := range f.holds {
		if of.Client == client {
			all = append(all, timeline.Span{From: f.at(of.From), To: f.at(of.To), State: timeline.Holds,
				Text: f.short(of), Detail: f.long(of)})
		}
	}
	for _, o := range f.overlaps {
		var each []string
		for _, of := range o.Holds {
			each = append(each, f.long(of))
		}
		for _, of := range o.Holds {
			if of.Client == client {
				all = append(all, timeline.Span{From: f.at(o.From), To: f.at(o.To), State: timeline.Clash,
					Text: f.short(of), Detail: strings.Join(each, ", and ")})
			}
		}
	}
	return all
}

// short names a hold in a few letters.
func (f *frame) short(of history.Held) string {
	text := strings.TrimSpace(strings.TrimPrefix(of.Name, f.Name))
	if f.Tokens {
		text = strings.TrimSpace(fmt.Sprintf("%s #%d", text, f.ranks[of.Name][of.Token]))
	}
	return text
}

// long tells all about a hold.
func (f *frame) long(of history.Held) string {
	token := ""
	if f.Tokens {
		token = fmt.Sprintf(" with token %d", of.Token)
	}
	end := "without a known end"
	if of.To != Open {
		end = fmt.Sprintf("to %v (%s)", f.at(of.To).Round(time.Millisecond), of.How)
	}
	return fmt.Sprintf("client %d holds %s%s from %v %s", of.Client, of.Name, token,
		f.at(of.From).Round(time.Millisecond), end)
}

// verdict tells whether there were two holders at once.
func (f *frame) verdict() string {
	most := "two holders of the lock"
	if f.Slots > 0 {
		most = fmt.Sprintf("more than %d holders", f.Slots)
	}
	total, times := f.clashes()
	switch {
	case times == 0:
		return "Never " + most
	case times == 1:
		return fmt.Sprintf("%s, for %v", upper(most), total.Round(time.Millisecond))
	default:
		return fmt.Sprintf("%s: %d times, for %v in all", upper(most), times, total.Round(time.Millisecond))
	}
}

// clashes measures the union of the overlaps.
func (f *frame) clashes() (total time.Duration, times int) {
	sorted := slices.Clone(f.overlaps)
	slices.SortFunc(sorted, func(a, b history.Overlap) int { return cmp.Compare(a.From, b.From) })
	var end int64 = math.MinInt64
	for _, o := range sorted {
		if o.From > end {
			times++
		}
		from, to := max(o.From, end), min(o.To, f.end)
		total += time.Duration(max(to-from, 0))
		end = max(end, to)
	}
	return total, times
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
