//go:build unix

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/poll"
)

// The steps of schedules, besides faults of masters and paths.

// start starts a contender. Fields that the plan leaves empty get defaults: one name, over direct
// addresses.
func (r *run) start(plan contender.Plan) *worker {
	r.t.Helper()
	plan.Client, plan.Kind, plan.Patience = len(r.workers)+1, r.kind, cmp.Or(plan.Patience, 5*slack)
	if plan.URLs == nil {
		plan.URLs = r.urls()
	}
	plan.URLs = slices.Clone(plan.URLs)
	for i, url := range plan.URLs {
		plan.URLs[i] = r.known(url)
	}
	if plan.Names == nil {
		plan.Names = []string{name}
	}
	plan.Register, plan.Seed = r.registers.listener.Addr().String(), r.rng.Uint64()
	plan.Lease, plan.MaxLease, plan.Timeout = r.lease, r.lease, nodeTimeout
	w, err := startWorker(plan)
	if w != nil {
		r.workers = append(r.workers, w)
	}
	r.must(err)
	return w
}

// crowd starts contenders that lock, write and unlock until an order stops them.
func (r *run) crowd(n int, plan contender.Plan) []*worker {
	plan.Hold, plan.Rest = max(plan.Hold, 40*time.Millisecond), max(plan.Rest, 30*time.Millisecond)
	var all []*worker
	for range n {
		all = append(all, r.start(plan))
	}
	return all
}

// gated starts a contender that waits for an order before each phase.
func (r *run) gated(plan contender.Plan) *worker {
	plan.Gated = true
	w := r.start(plan)
	r.at(w, contender.ToLock)
	return w
}

// at waits until a gated contender stands before a phase.
func (r *run) at(w *worker, phase string) {
	r.t.Helper()
	_, err := w.next(soon, func(p contender.Report) bool { return p.Did == contender.Waiting && p.Phase == phase })
	r.need(err == nil, "contender %d is before %s: %v", w.plan.Client, phase, err)
}

// holds starts a gated contender, and waits until it has acquired the lock. It is before its write then.
func (r *run) holds(plan contender.Plan) *worker {
	r.t.Helper()
	w := r.gated(plan)
	r.pass(w, contender.Acquired)
	r.at(w, contender.ToWrite)
	return w
}

// goesOn lets a gated contender write, or not, and waits until it is before Unlock.
func (r *run) goesOn(w *worker) (did string) {
	r.t.Helper()
	did = r.pass(w, contender.Wrote, contender.Stale, contender.Withheld).Did
	r.at(w, contender.ToUnlock)
	return did
}

// withholds expects that a gated contender, which is cut off from its lock, doesn't write.
func (r *run) withholds(w *worker) {
	r.t.Helper()
	did := r.goesOn(w)
	r.expect(did == contender.Withheld, "client %d knows that it no longer holds: %s", w.plan.Client, did)
}

// leaves lets a gated contender that is before Unlock unlock.
func (r *run) leaves(w *worker) {
	r.t.Helper()
	r.pass(w, contender.Released, contender.Unreleased)
}

// pass lets a gated contender pass, and returns its report.
func (r *run) pass(w *worker, done ...string) contender.Report {
	r.t.Helper()
	w.order(contender.Go)
	return r.did(w, done...)
}

// did waits for what a gated contender does next, and returns its report.
func (r *run) did(w *worker, done ...string) contender.Report {
	r.t.Helper()
	did, err := w.next(soon, func(p contender.Report) bool { return slices.Contains(done, p.Did) })
	r.need(err == nil, "contender %d does one of %q: %v", w.plan.Client, done, err)
	return did
}

// acquires waits until a contender acquires by a call that was made after the instant.
func (r *run) acquires(since time.Time, bound time.Duration, by ...*worker) contender.Report {
	r.t.Helper()
	return r.find(since.Add(bound), by, func(p contender.Report) bool { return p.Called() >= contender.At(since) })
}

// find waits for an acquire that is wanted, and returns the first one.
func (r *run) find(late time.Time, by []*worker, wanted func(contender.Report) bool) (first contender.Report) {
	r.t.Helper()
	if len(by) == 0 {
		by = r.workers
	}
	found := poll.Until(time.Until(late), func() bool {
		for _, p := range acquired(by...) {
			if wanted(p) && (first.At == 0 || p.At < first.At) {
				first = p
			}
		}
		return first.At != 0
	})
	r.need(found, "a contender acquires in time")
	return first
}

// available waits until a contender acquires the lock after the instant, by a call made at any
// time, and notes how long that took.
func (r *run) available(since time.Time, bound time.Duration, after string, by ...*worker) {
	r.t.Helper()
	late := since.Add(bound + slack)
	if r.ours() {
		late = since.Add(bound + soon) // to measure how late it is
	}
	first := r.find(late, by, func(p contender.Report) bool { return p.At > contender.At(since) })
	took := time.Duration(first.At - contender.At(since))
	r.expect(took <= bound, "acquired %v after %s, within %v", took, after, bound)
	r.note("acquired %v after %s", took.Round(time.Millisecond), after)
}

func (r *run) note(format string, args ...any) {
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
}

// acquired are the acquires of contenders so far.
func acquired(by ...*worker) (all []contender.Report) {
	for _, w := range by {
		all = append(all, slices.DeleteFunc(w.all(), func(p contender.Report) bool { return p.Did != contender.Acquired })...)
	}
	return all
}

func reported(w *worker, did string) bool {
	return slices.ContainsFunc(w.all(), func(p contender.Report) bool { return p.Did == did })
}

// let lets time pass, in which contenders contend.
func (r *run) let(d time.Duration) { time.Sleep(d) }

// below is a random time below d.
func (r *run) below(d time.Duration) time.Duration { return time.Duration(r.rng.Int64N(int64(d))) }

// stopClient and continueClient are SIGSTOP and SIGCONT.
func (r *run) stopClient(w *worker) {
	r.happened("SIGSTOP", "client %d", w.plan.Client)
	r.must(w.cmd.Process.Signal(syscall.SIGSTOP))
}

func (r *run) continueClient(w *worker) {
	r.Notes.Log("SIGCONT client %d", w.plan.Client)
	r.must(w.cmd.Process.Signal(syscall.SIGCONT))
}

func (r *run) killClient(w *worker) {
	r.happened("SIGKILL", "client %d", w.plan.Client)
	w.killed = true
	r.must(w.cmd.Process.Kill())
	<-w.exited
}
