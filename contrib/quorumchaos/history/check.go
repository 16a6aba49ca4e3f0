package history

import (
	"cmp"
	"slices"
	"time"
)

// maxToken is the highest token: servers count in float64.
const maxToken = 1<<53 - 1

// Violation is a broken guarantee.
type Violation struct {
	Rule   string // "overlap", "token", "porcupine" and "log" of [Check], "crowd" of [CheckCrowd], "register" of the judge
	Detail string // a text with the name, and the holds with owner, token and times since Options.Origin
	At     int64  // when it showed, by the events' clock; [Unknown] if no instant stands out
}

func (v Violation) String() string { return v.Rule + ": " + v.Detail }

// Options controls how a history is judged.
type Options struct {
	// Origin is the instant that times in texts count from; 0 for the first call of the history.
	Origin int64
	// HonestClocks states that no clock strayed beyond the drift that leases allow for. Without it
	// two clients may hold at once, and only the tokens are judged.
	HonestClocks bool
	// ViewDir is the directory for porcupine's view of each name with a violation, an HTML
	// file; "" for no views. Check makes the directory if it is missing.
	ViewDir string
}

// timeout bounds porcupine's search for each name. In a testing/synctest bubble it never comes: Check keeps the bubble's clock
// from moving.
const timeout = 30 * time.Second

// Check returns the violations of a history, none when all is well:
//
//   - overlap (with honest clocks): a lock is held from the instant that Lock returned until Unlock
//     was called, the deadline passed or the context ended: the first of these. Two owners of one
//     name must not hold at the same time. Two holds that share only an instant, the end of one and
//     the begin of the other, do not overlap: their order within it is unknown. A Lock that
//     returned after its deadline held nothing. Readers overlap with readers; a hold that was downgraded
//     is a reader's from then on.
//   - token: when Lock had returned to one owner before another one called it, the other's token is
//     strictly higher. No two owners of a name ever get the same token, but for readers at once. An
//     owner that enters again keeps its token. Tokens are 1 to 2^53−1.
//   - porcupine, a checker of linearizability (with honest clocks): some order of all events, each
//     within its call and return, explains the history. Only this rule notices if two calls of Lock overlap, and the
//     later holder has the lower token. A search that takes longer than 30 s is a violation, too.
//   - log: a release without an acquire, an owner used twice, a call that returned before it began.
//
// An operator who forces a lock open ends its hold: record that as [Lost].
func Check(events []Event, opts Options) []Violation {
	var all []Violation
	for _, h := range gather(events, opts.Origin) {
		h.checkTokens()
		if opts.HonestClocks {
			h.checkOverlap()
		}
		h.checkModel(opts)
		all = append(all, h.violations...)
	}
	return all
}

func (h *history) checkTokens() {
	owners := map[uint64]*hold{}
	var returned []*hold
	for _, of := range h.holds {
		if of.Return == Unknown && of.Token == 0 {
			continue
		}
		if of.Token < 1 || of.Token > maxToken {
			h.report(of.Call, "token", "%s: not between 1 and 2^53−1", h.describe(of))
		}
		if other := owners[of.Token]; other != nil && !(other.Shared && of.Shared) {
			h.report(of.Call, "token", "given twice: to %s and to %s", h.describe(other), h.describe(of))
		} else {
			owners[of.Token] = of
		}
		if of.Return != Unknown {
			returned = append(returned, of)
		}
		for _, e := range of.inner {
			if e.Kind == Acquired && e.Token != of.Token && (e.Return != Unknown || e.Token != 0) {
				h.report(e.Call, "token", "changed to %d when entered again (depth %d, Lock called %s, returned %s): %s",
					e.Token, e.Depth, h.at(e.Call), h.at(e.Return), h.describe(of))
			}
		}
	}
	slices.SortFunc(returned, func(a, b *hold) int { return cmp.Compare(a.Return, b.Return) })
	var highest *hold // among those that returned before the current call
	for _, of := range h.holds {
		for len(returned) > 0 && returned[0].Return < of.Call {
			if highest == nil || returned[0].Token > highest.Token {
				highest = returned[0]
			}
			returned = returned[1:]
		}
		if highest != nil && (of.Token < highest.Token || of.Token == highest.Token && of.Shared && highest.Shared) && (of.Token != 0 || of.Return != Unknown) {
			h.report(of.Call, "token", "not higher than before: first %s, then %s", h.describe(highest), h.describe(of))
		}
	}
}

func (h *history) checkOverlap() {
	for _, o := range h.overlaps() {
		h.report(o.from, "overlap", "for %v: %s and %s", time.Duration(o.to-o.from), h.describe(o.first),
			h.describe(o.second))
	}
}

// part is the part of a hold in which it is a writer's, or a reader's.
type part struct {
	of       *hold
	from, to int64
	shared   bool
}

func (of *hold) parts() (parts []part) {
	if written := min(of.reads, of.end); !of.Shared && of.Return <= written {
		parts = append(parts, part{of, of.Return, written, false})
	}
	if reads := max(of.reads, of.Return); of.reads != never && reads <= of.end {
		parts = append(parts, part{of, reads, of.end, true})
	}
	return parts
}
