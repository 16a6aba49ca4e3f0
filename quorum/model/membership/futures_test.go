package membership

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/visited"
	"github.com/quorumlock/quorumlock/scripts"
)

// future is the number of all that a command may still do; 0 for nothing. After a look a command
// learns only which of its marks are written, so those that would write alike are one.
type future uint32

// step is a future's first step, and the futures behind it.
type step struct {
	do      change.Action // Write, ReadTokens or RaiseTokens
	write   write
	list    []int  // the masters whose counters it reads, or raises
	least   int    // how many of them are enough for it to go on
	yes, no future // after a mark that was written, and one that was not
	run     run    // one that comes to this
}

// run is a command that has looked, and what it was told since.
type run struct {
	command int
	views   [maxNodes]record
	passed  uint8  // steps of the pass over the token counters
	count   uint8  // of marks
	no      uint16 // bit by mark: it was not written
}

type futures struct {
	all    []step
	number map[string]future // by what is in a step
	of     map[run]future
	older  map[future]future
	begun  map[scene][]beginning
	base   run               // the last one that was asked, without what it was told since the look
	looked *change.Procedure // what it was after the look
}

func newFutures() futures {
	return futures{all: make([]step, 1), number: map[string]future{}, of: map[run]future{}, older: map[future]future{}, begun: map[scene][]beginning{}}
}

// foresee returns the future of a run: the procedure says what it does next, if told so.
func (w *world) foresee(r run) future {
	return visited.Once(w.futures.of, r, func() future {
		next, ok := w.ask(r)
		if !ok {
			return 0
		}
		yes, no := r, r
		if next.do == change.Write {
			yes.count++
			no.count++
			no.no |= 1 << r.count
			next.no = w.foresee(no)
		} else {
			yes.passed++
		}
		next.yes = w.foresee(yes)
		next.run = r
		key := fmt.Sprint(next.do, next.write, next.list, next.yes, next.no)
		return visited.Once(w.futures.number, key, func() future {
			w.futures.all = append(w.futures.all, next)
			return future(len(w.futures.all) - 1)
		})
	})
}

// ask runs the procedure up to there. It returns false when the run is over, waits or looks again.
func (w *world) ask(r run) (next step, ok bool) {
	if base := (run{command: r.command, views: r.views}); base != w.futures.base || w.futures.looked == nil {
		by := &w.cmds[r.command]
		p, first, seen := by.begin(), oldest(r.views[:]), map[string]*membership.View{}
		for _, n := range by.looks {
			if v := w.view(n, r.views[n], first); v != nil {
				seen[w.names[n:n+1]] = v
			}
		}
		p.Looked(seen)
		w.futures.base, w.futures.looked = base, p
	}
	looked := *w.futures.looked
	p := &looked
	passed, from := uint8(0), []string(nil)
	for _, do := range []change.Action{change.ReadTokens, change.RaiseTokens} {
		if s := p.Next(); s.Do == do {
			if from == nil {
				from = s.Names
			}
			if w.tokens > 0 && passed == r.passed {
				next = step{do: do, least: 1}
				for _, name := range from {
					next.list = append(next.list, w.places(name)[0])
				}
				for {
					q := *p
					if tell := map[change.Action]func([]string){change.ReadTokens: q.TokensRead,
						change.RaiseTokens: q.TokensRaised}[do]; next.least <= len(from) {
						tell(from[:next.least])
					}
					if q.Next().Do != change.Failed || next.least > len(from) {
						return next, true
					}
					next.least++
				}
			}
			passed++
			if do == change.ReadTokens {
				p.TokensRead(from)
			} else {
				p.TokensRaised(from)
			}
		}
	}
	for i := range r.count {
		p.Wrote(scripts.MarkReply{Written: r.no&(1<<i) == 0})
	}
	s := p.Next()
	if s.Do != change.Write {
		return step{}, false
	}
	n := w.places(s.Names[0])[0]
	return step{do: s.Do, write: w.writeOf(n, s.Call)}, true
}

// later is a future a tick later; nothing, if it is too late for all marks.
func (w *world) later(f future) future {
	return visited.Once(w.futures.older, f, func() future {
		r := w.futures.all[f].run
		for n := range r.views {
			r.views[n] = w.markers.older(r.views[n])
		}
		if oldest(r.views[:]) > w.window {
			return 0
		}
		return w.foresee(r)
	})
}
