package history

import (
	"cmp"
	"slices"
)

// Held is a hold as [Check] judges it.
type Held struct {
	Client int
	Name   string
	Owner  string
	Token  uint64
	From   int64  // Lock returned
	To     int64  // the end: Unlock called, the deadline, or the context's end; math.MaxInt64 if none is known
	How    string // it ended: "released", "lost", "deadline" or "never"
}

func (of *hold) held() Held {
	return Held{of.Client, of.Name, of.Owner, of.Token, of.Return, of.end, of.how}
}

// Holds returns the holds of a history, by name and then in the order of the calls. A Lock that
// returned after its deadline held nothing.
func Holds(events []Event) (all []Held) {
	for _, of := range begun(gather(events, 0)...) {
		all = append(all, of.held())
	}
	return all
}

// begun returns the holds that began, in their order.
func begun(histories ...*history) (holds []*hold) {
	for _, h := range histories {
		for _, of := range h.holds {
			if of.began() {
				holds = append(holds, of)
			}
		}
	}
	return holds
}

// Overlap is a time in which holds overlapped that exclude each other. From and To are equal if the
// shorter one began and ended in one instant.
type Overlap struct {
	From, To int64
	Holds    []Held
}

// Overlaps returns the overlaps that [Check] reports, one for each violation of the rule "overlap",
// in the same order. Together they cover every instant in which owners of a name held that exclude
// each other.
func Overlaps(events []Event) (all []Overlap) {
	for _, h := range gather(events, 0) {
		for _, o := range h.overlaps() {
			all = append(all, Overlap{o.from, o.to, []Held{o.first.held(), o.second.held()}})
		}
	}
	return all
}

// overlap is a time in which two holds of a name overlapped.
type overlap struct {
	from, to      int64
	first, second *hold // by their begin
}

// overlaps compares each part with the one that ends last of those before it.
func (h *history) overlaps() (all []overlap) {
	var began []part
	for _, of := range begun(h) {
		began = append(began, of.parts()...)
	}
	slices.SortFunc(began, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var last, writer *part // the part that ends last, among all that began so far and among writers' parts
	for i := range began {
		of, other := &began[i], last
		if of.shared {
			other = writer
		}
		if other != nil && of.from < other.to && other.from < of.to {
			all = append(all, overlap{of.from, min(other.to, of.to), other.of, of.of})
		}
		if last == nil || of.to > last.to {
			last = of
		}
		if !of.shared && (writer == nil || of.to > writer.to) {
			writer = of
		}
	}
	return all
}
