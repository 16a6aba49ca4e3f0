package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

const never int64 = math.MaxInt64

// hold is one owner's lock on one name, from Lock to its end.
type hold struct {
	Event        // the acquire of depth 1
	end   int64  // min(Unlock called, deadline, context ended); never if none is known
	over  int64  // when the end was known: Unlock returned; never if it was not seen
	how   string // how it ended
	reads int64  // since when it is a reader's; never for a writer's
	lower *Event // its downgrade, or nil
	inner []Event
}

// began reports whether the holder ever believed to hold, and so from Return to end.
func (h *hold) began() bool { return h.Return != Unknown && h.Return <= h.end }

// history is the events of one name.
type history struct {
	name       string
	holds      []*hold // by Call
	origin     int64   // of the times in messages
	violations []Violation
}

// gather groups the events by name, in the order of names. An origin of 0 is the first call of all names.
func gather(events []Event, origin int64) []*history {
	byName := map[string][]Event{}
	first := never
	for _, e := range events {
		byName[e.Name] = append(byName[e.Name], e)
		first = min(first, e.Call)
	}
	origin = cmp.Or(origin, first)
	var all []*history
	for name, events := range byName {
		h := &history{name: name, origin: origin}
		h.gather(events)
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *history) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (h *history) gather(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Kind, b.Kind))
	})
	owners := map[string]*hold{}
	for _, e := range events {
		if e.Kind != Acquired || e.Depth > 1 {
			continue
		}
		switch known := owners[e.Owner]; {
		case known == nil:
			owners[e.Owner] = &hold{Event: e, end: never, over: never, how: "never", reads: never}
			if e.Shared {
				owners[e.Owner].reads = e.Return
			}
			h.holds = append(h.holds, owners[e.Owner])
		case known.Call == e.Call && known.Token == e.Token: // recorded again, with a later deadline
			known.Deadline = max(known.Deadline, e.Deadline)
		default:
			again := &hold{Event: e, end: never, how: "unknown"}
			h.report(e.Call, "log", "owner %s acquired twice: %s and %s", e.Owner, h.describe(known), h.describe(again))
		}
	}
	for _, e := range events {
		known := owners[e.Owner]
		if e.Return < e.Call {
			h.report(e.Call, "log", "owner %s: %v returned at %s, before it was called at %s", e.Owner, e.Kind, h.at(e.Return),
				h.at(e.Call))
		}
		if known == nil {
			h.report(e.Call, "log", "owner %s: %v of depth %d at %s, without an acquire of depth 1", e.Owner, e.Kind, e.Depth,
				h.at(e.Call))
			continue
		}
		known.Deadline = max(known.Deadline, e.Deadline)
		switch {
		case e.Kind == Downgraded:
			known.reads, known.lower = min(known.reads, e.Call), &e
		case e.Kind != Acquired && e.Kind != Released && e.Kind != Lost:
			h.report(e.Call, "log", "owner %s: %v at %s", e.Owner, e.Kind, h.at(e.Call))
		case e.Depth > 1:
			known.inner = append(known.inner, e)
		case e.Kind != Acquired && e.Call < known.end:
			known.end, known.over, known.how = e.Call, e.Return, e.Kind.String()
		}
	}
	for _, known := range h.holds {
		if known.Deadline != 0 && known.Deadline < known.end {
			known.end, known.how = known.Deadline, "deadline"
		}
	}
}

func (h *history) report(at int64, rule, format string, args ...any) {
	text := fmt.Sprintf("%q: ", h.name) + fmt.Sprintf(format, args...)
	h.violations = append(h.violations, Violation{rule, text, at})
}

// describe names a hold with its owner, token and times.
func (h *history) describe(of *hold) string {
	return fmt.Sprintf("owner %s of client %d, token %d (Lock called %s, returned %s; end %s, by %s)",
		of.Owner, of.Client, of.Token, h.at(of.Call), h.at(of.Return), h.at(of.end), of.how)
}

func (h *history) at(instant int64) string {
	if instant == never {
		return "never"
	}
	return "+" + time.Duration(instant-h.origin).String()
}
