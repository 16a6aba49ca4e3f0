package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// outlive is how long a lock is watched after a master was killed: longer than a grant lasts without renewal.
const outlive = lease + lease/5

type acquisition struct {
	lock *quorum.Lock
	at   time.Time
	err  error
}

func (d *demo) hold(ctx context.Context) error {
	d.chapter("3. A lock that outlives masters")
	lock, err := d.take(ctx, d.a)
	if err != nil {
		return err
	}
	d.lock = lock
	ended := make(chan time.Time, 1)
	d.ended = ended
	context.AfterFunc(lock.Context(), func() {
		d.chart.End(workerA, "")
		d.chart.Mark(workerA, "lost")
		ended <- time.Now()
	})
	d.say("worker A takes %s, token %d, with a lease of %v that it renews every third of it",
		resource, lock.Token(), lease)
	d.say("worker A may believe that it holds for another %s (Lock.Deadline); renewal moves that on",
		seconds(time.Until(lock.Deadline())))

	next := make(chan acquisition, 1)
	d.next = next
	d.waiting.Go(func() {
		var got acquisition
		defer func() {
			got.at = time.Now()
			next <- got
		}()
		defer guard(&got.err)
		got.lock, got.err = d.take(ctx, d.b)
	})
	d.say("worker B asks for it too, and waits")
	return nil
}

func (d *demo) loseMinority(ctx context.Context) error {
	for i := range 2 {
		before := d.lock.Deadline()
		if err := d.kill(i); err != nil {
			return err
		}
		for step := range 3 {
			if err := pause(ctx, outlive/3); err != nil {
				return err
			}
			if step < 2 {
				d.say("valid: %v, for another %s", d.lock.Valid(), seconds(time.Until(d.lock.Deadline())))
			}
		}
		holds := d.lock.Valid() && d.lock.Context().Err() == nil && len(d.next) == 0
		d.claim(holds && time.Now().After(before),
			"%v later, more than a lease, worker A still holds, and worker B still waits", outlive)
		moved := d.lock.Deadline().Sub(before)
		d.claim(moved > 0, "the deadline has moved on by %s: %d masters of %d go on renewing",
			seconds(moved), masterCount-1-i, masterCount)
	}
	return nil
}

func (d *demo) loseMajority(ctx context.Context) error {
	d.chapter("4. The majority is lost")
	if err := d.kill(2); err != nil {
		return err
	}
	killed := time.Now()
	d.say("too few masters are left to renew, so worker A may believe that it holds for another %s at most",
		seconds(time.Until(d.lock.Deadline())))
	ended, barred, err := d.watchLoss(ctx)
	if err != nil {
		return err
	}
	if ended.IsZero() {
		d.claim(false, "the context of the lock ends when the majority is lost")
		return nil
	}
	cause := context.Cause(d.lock.Context())
	d.claim(errors.Is(cause, quorum.ErrLost) && !d.lock.Valid(),
		"%s after the kill the context of the lock has ended: quorum.ErrLost", seconds(ended.Sub(killed)))
	d.claim(ended.Before(barred), "that was in time: its keys on %s would have kept all others out for another %s",
		names[3]+", "+names[4], seconds(barred.Sub(ended)))
	d.claim(len(d.next) == 0, "worker B still waits: the two masters that are left are no majority")

	blamed := map[string]bool{}
	if lost, ok := errors.AsType[*quorum.Error](cause); ok && lost.Nodes != nil {
		d.say("why, by master (context.Cause of the lock's context):")
		for _, err := range lost.Nodes.Errors {
			if failed, ok := errors.AsType[*node.Error](err); ok {
				blamed[failed.Node] = true
				d.say("  %s  %s", failed.Node, masters.Reason(err))
			}
		}
	}
	d.claim(len(blamed) == 3 && blamed[names[0]] && blamed[names[1]] && blamed[names[2]],
		"the reason names the masters that failed, and no other")
	return nil
}

// watchLoss waits for the end of the lock's context. It returns that time, and when the lock's keys on the remaining
// masters stop barring others, as last seen. ended is zero if the context did not end.
func (d *demo) watchLoss(ctx context.Context) (ended, barred time.Time, err error) {
	overdue, often := time.After(2*lease), time.Tick(100*time.Millisecond)
	for {
		select {
		case ended = <-d.ended:
			return ended, barred, nil
		case <-often:
			if until, ok := d.barredUntil(ctx); ok {
				barred = until
			}
		case <-overdue:
			return ended, barred, nil
		case <-ctx.Done():
			return ended, barred, ctx.Err()
		}
	}
}

// barredUntil asks the remaining masters how long they keep the lock's keys.
func (d *demo) barredUntil(ctx context.Context) (until time.Time, ok bool) {
	asked := time.Now()
	state, _ := operator.Inspect(ctx, d.b.locker, resource) // the error: these masters are no majority
	for _, seen := range state.Nodes[3:] {
		if seen.Err != nil || seen.Owner != d.lock.Owner() {
			return until, false
		}
		if at := asked.Add(seen.TTL); until.IsZero() || at.Before(until) {
			until = at
		}
	}
	return until, !until.IsZero()
}

// comeBack starts the masters again. Worker B gets the lock when the first of them leaves its quarantine.
func (d *demo) comeBack(ctx context.Context) error {
	d.chapter("5. The masters come back")
	began := time.Now()
	for i := range 3 {
		d.chart.Mark(names[i], "restart")
		if err := d.fleet.Masters[i].Start(); err != nil {
			return err
		}
		d.chart.End(names[i], "dead")
		d.quarantined(i, lease)
	}
	d.say("%s run again and remember nothing: they are in quarantine for %v, or they might grant a lock that is held",
		strings.Join(names[:3], ", "), lease)
	got, err := d.countDown(ctx)
	if err != nil {
		return err
	}
	if got.err != nil {
		return fmt.Errorf("worker B waited for the lock and did not get it: %w", got.err)
	}
	lock, waited := got.lock, got.at.Sub(began)
	// A server counts whole milliseconds.
	d.claim(waited > lease-5*time.Millisecond,
		"worker B holds %s, %s after the masters came back: not before a quarantine was over", resource, seconds(waited))
	d.claim(lock.Token() > d.lock.Token(),
		"its token %d is higher than worker A's, by %d, although three masters forgot that one",
		lock.Token(), lock.Token()-d.lock.Token())
	if err := pause(ctx, workTime*4); err != nil { // so that the picture shows it
		return err
	}
	d.chart.End(workerB, "")
	err = lock.Unlock(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		d.say("worker B's Unlock: %v", err)
	}
	d.claim(err == nil, "worker B unlocks, and enough masters confirm it")
	return nil
}

// countDown prints the quarantines until worker B has the lock.
func (d *demo) countDown(ctx context.Context) (acquisition, error) {
	overdue, often := time.After(lease+5*time.Second), time.Tick(lease/5)
	for {
		select {
		case got := <-d.next:
			return got, ctx.Err()
		case <-often:
			var parts []string
			for i, f := range masters.CheckAll(ctx, d.b.nodes[:3]) {
				d.quarantined(i, f.Report.Quarantine)
				left := masters.Left(f.Report.Quarantine)
				if f.Err != nil {
					left = masters.Reason(f.Err)
				}
				parts = append(parts, names[i]+" "+left)
			}
			d.say("quarantine left: %s", strings.Join(parts, "   "))
		case <-overdue:
			return acquisition{}, errors.New("worker B does not get the lock, although the quarantine is over")
		case <-ctx.Done():
			return acquisition{}, ctx.Err()
		}
	}
}

// quarantined notes how long a master's quarantine lasts from now on.
func (d *demo) quarantined(i int, left time.Duration) {
	if left > 0 {
		d.chart.Add(names[i], timeline.Span{To: d.chart.Now() + left, State: timeline.Quarantine})
	}
}

func (d *demo) kill(i int) error {
	d.chart.Add(names[i], timeline.Span{State: timeline.Down, Text: "dead"})
	d.chart.Mark(names[i], "kill")
	if err := d.fleet.Masters[i].Kill(); err != nil {
		return err
	}
	d.say("%s is killed", names[i])
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
