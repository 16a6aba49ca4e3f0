// Package gocronquorumlock lets several schedulers of github.com/go-co-op/gocron/v2 run each job
// once per tick, under a lock of package quorum.
//
//	by, err := gocronquorumlock.New(locker, time.Minute, 2*time.Second) // the jobs' period, how far apart instances tick
//	if err != nil {
//		return nil, err
//	}
//	return gocron.NewScheduler(gocron.WithDistributedLocker(by))
//
// Give every job a name ([gocron.WithName]), the same in all instances: it is the lock's.
//
// Every instance of a service has the same jobs. At a tick each scheduler asks for the lock at the
// job's name, and the one that gets it runs the job. The lock stays on the masters for at least the
// min hold, however short the job is, so that a scheduler whose tick comes later does not run the
// job again.
//
//	      earliest scheduler asks        latest scheduler asks     its wait ends              the next tick
//	──────┼──────────────────────────────┼─────────────────────────┼──────────────────────────┼────────▶
//	      │◀─────────── skew ───────────▶│◀───────── wait ────────▶│
//	      │◀───────────────────────── min hold ─────────────────────────────▶│
//
// So skew + wait must be below the min hold, and twice the min hold below the period less the skew:
// [New] refuses other settings. docs/gocron.md says what follows when a scheduler, its process or the
// masters do not keep to that.
package gocronquorumlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/quorumlock/quorumlock/quorum"
)

// Locker is a [gocron.Locker], for [gocron.WithDistributedLocker] or
// [gocron.WithDistributedJobLocker]. It is safe for concurrent use.
type Locker struct {
	locker  *quorum.Locker
	minHold time.Duration

	mu   sync.Mutex
	runs map[string][]*jobLock // this process's runs that go on, and the last that began, by the job's name: see matters
}

var _ gocron.Locker = (*Locker)(nil)

// New returns a Locker for jobs that run once per period, or less often. skew bounds how far apart two schedulers ask
// for the lock of one tick: by how much their clocks differ, and how late their timers and goroutines run. Both are
// the same in all instances.
//
// The caller owns the quorum locker, which may serve other locks, and closes it after the scheduler has been shut
// down. Its settings apply, but for its lease, min hold and wait: the Locker has its own.
//
// The error wraps [quorum.ErrInvalid] for settings that let a tick run twice or not at all (see [WithMinHold]) and
// for what the quorum locker refuses, such as a min hold above the masters' max lease. It wraps [quorum.ErrClosed]
// for a locker that was closed.
func New(locker *quorum.Locker, period, skew time.Duration, opts ...Option) (*Locker, error) {
	set, err := newSettings(period, skew, opts)
	if err != nil {
		return nil, err
	}
	if locker == nil {
		return nil, invalidf("the locker is nil")
	}
	l := newLocker(locker, set)
	if err := l.locker.CheckNames("job"); err != nil {
		return nil, fmt.Errorf("gocronquorumlock: %w", err)
	}
	return l, nil
}

func newLocker(locker *quorum.Locker, set *settings) *Locker {
	own := locker.With(quorum.WithLease(set.minHold), quorum.WithMinHold(set.minHold), quorum.WithWait(set.wait))
	return &Locker{locker: own, minHold: set.minHold, runs: map[string][]*jobLock{}}
}

// Lock waits for the lock at the job's name, at most as long as WithWait says. When it returns an error, gocron skips
// this tick and calls the job's gocron.AfterLockError. The error is [quorum.Locker.Lock]'s: it wraps [quorum.ErrHeld]
// if another scheduler runs the job, or has run it in this tick.
//
// Within the min hold of the last run, gocron's RunNow runs nothing, although it returns nil. If the last run was
// this process's, Lock's error says so, and a warning is logged.
//
// The lock's context derives from ctx, which is the job's: it ends when the job's does, or when the lock is lost.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := l.locker.Lock(ctx, job)
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.runs, func(_ string, of []*jobLock) bool { return !slices.ContainsFunc(of, (*jobLock).matters) })
	if err == nil {
		run := &jobLock{locker: l, lock: lock, began: time.Now()}
		l.runs[job] = append(slices.DeleteFunc(l.runs[job], (*jobLock).hasEnded), run)
		return run, nil
	}
	var failed *quorum.Error
	endedLast := func(run *jobLock) bool { return run.ended && failed.Holder == run.lock.Owner() }
	if errors.As(err, &failed) && slices.ContainsFunc(l.runs[job], endedLast) {
		slog.Warn("quorumlock: job not run again within its min hold", "job", job, "left", failed.Remaining)
		err = fmt.Errorf("gocronquorumlock: not within the min hold of this process's last run: %w", err)
	}
	return nil, err
}

// Held returns the lock of this process's run of the job of that name. The job takes the fencing token from it
// ([quorum.Lock.Token]), and the context that ends when the lock is lost ([quorum.Lock.Context]): gocron gives a job
// neither.
//
// It returns false when the process does not run the job. It also returns false while two runs go on, one of which
// has lost its lock: gocron does not say which of them asks, and neither may have the other's token. With
// gocron.WithSingletonMode a scheduler starts no run beside another.
func (l *Locker) Held(job string) (*quorum.Lock, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var held *quorum.Lock
	for _, run := range l.runs[job] {
		switch {
		case run.ended:
		case held != nil:
			return nil, false
		default:
			held = run.lock
		}
	}
	return held, held != nil
}

// jobLock is the lock of one run of a job.
type jobLock struct {
	locker *Locker
	lock   *quorum.Lock
	began  time.Time
	ended  bool // by the locker's mutex
}

func (j *jobLock) hasEnded() bool { return j.ended }

// matters reports whether the run goes on, or the masters may have its lock. A scheduler may have jobs of ever new names.
func (j *jobLock) matters() bool { return !j.ended || time.Since(j.began) < 2*j.locker.minHold }

// Unlock ends the run's lock. The masters keep it until the end of the min hold.
func (j *jobLock) Unlock(ctx context.Context) error {
	j.locker.mu.Lock()
	j.ended = true
	j.locker.mu.Unlock()
	return j.lock.Unlock(ctx)
}
