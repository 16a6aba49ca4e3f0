//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
	"golang.org/x/sys/unix"
)

// open opens the masters, and a locker over them. The caller closes the locker, then the masters.
func (l *line) open(report func(error)) (*quorum.Locker, []*node.Node, error) {
	nodes, urls, err := l.access.Open()
	if err != nil {
		return nil, nil, err
	}
	constructor := redlock.New
	if l.all {
		constructor = multilock.New
	}
	l.urls = urls
	logger := masters.Silent
	if !l.noWait { // otherwise the error says it all
		logger = slog.New(waitingLog(func(err error) { report(l.hinted(err, nodes)) }))
	}
	options := []quorum.Option{quorum.WithLease(l.lease), quorum.WithLogger(logger), quorum.WithLabel(l.label)}
	if l.existing {
		options = append(options, quorum.WithoutFounding())
	}
	if l.wait > 0 {
		options = append(options, quorum.WithWait(l.wait))
	}
	locker, err := constructor(nodes, options...)
	if err != nil {
		masters.CloseAll(nodes)
		return nil, nil, cli.ExitWith(cli.ExitConfiguration, err)
	}
	return locker, nodes, nil
}

// waitingLog is a slog.Handler that reports why Lock waits for masters, since it may wait for ever.
type waitingLog func(error)

func (report waitingLog) Enabled(context.Context, slog.Level) bool { return true }
func (report waitingLog) WithAttrs([]slog.Attr) slog.Handler       { return report }
func (report waitingLog) WithGroup(string) slog.Handler            { return report }

func (report waitingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "quorumlock: waiting for nodes" { // a lost lock is reported together with the reaction to it
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			report(fmt.Errorf("waiting for masters: %w", err))
		}
		return true
	})
	return nil
}

// hinted adds to an error why a master may not have answered, as far as its URL shows.
func (l *line) hinted(err error, nodes []*node.Node) error {
	for i, n := range nodes {
		last := n.LastError()
		if last == nil {
			continue
		}
		if errors.Is(last, node.ErrMaxLease) {
			return fmt.Errorf("%w: give the deployment's with -max-lease", err)
		}
		if hint := masters.TLSHint(context.Background(), n, l.urls[i], last); hint != "" {
			return fmt.Errorf("%w; %s: %s", err, n.Name(), hint)
		}
	}
	return err
}

// interrupted is the cause with which a signal ends the waiting.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "ended by " + unix.SignalName(i.signal) }

// acquire takes the lock after first, and waits for it as the command line says. A signal ends the waiting.
func (l *line) acquire(locker *quorum.Locker, first func(context.Context) error, signals <-chan os.Signal) (*quorum.Lock, error) {
	// The lock's context ends with this one, so it is not cancelled once the lock is held.
	ctx, cancel := context.WithCancelCause(context.Background())
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			cancel(interrupted{s.(syscall.Signal)})
		case <-over:
		}
	}()
	var lock *quorum.Lock
	err := first(ctx)
	if err == nil {
		lock, err = l.lock(ctx, locker)
	}
	close(over)
	<-watched
	if err == nil && ctx.Err() != nil { // the waiting ended as the lock was acquired
		l.unlock(lock)
		err = fmt.Errorf("%w: %w: %w", quorum.ErrNotAcquired, quorum.ErrHeld, context.Cause(ctx))
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return lock, nil
}

// wasHeld reports whether the lock was held at the command's end, by the word of the masters that answer: a loss of which this
// process has not heard yet may have come while the command ran. Without an answer the clock counts, by which it was.
func (l *line) wasHeld(lock *quorum.Lock) bool {
	if !lock.Valid() {
		return false
	}
	// Later, masters have forgotten a lock that nobody has renewed.
	ctx, cancel := context.WithDeadline(context.Background(), lock.Deadline())
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, 2*l.access.Timeout)
	defer stop()
	_ = lock.Extend(ctx, l.lease)
	return !lock.Deadline().IsZero() // as it is if too few masters keep the lock
}

// stay waits for the rest of -min-hold, or until the lock is lost. It returns false when a signal ends the waiting.
func stay(lock *quorum.Lock, left time.Duration, signals <-chan os.Signal) bool {
	for over := time.After(left); ; {
		select {
		case <-over:
			return true
		case <-lock.Context().Done():
			return true
		case s := <-signals:
			if s != syscall.SIGUSR1 && s != syscall.SIGUSR2 { // these are the command's
				return false
			}
		}
	}
}

// unlock releases the lock. A release that takes longer than two timeouts is left to Close, and then to the lease.
func (l *line) unlock(lock *quorum.Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.access.Timeout)
	defer cancel()
	return lock.Unlock(ctx)
}

func (l *line) lock(ctx context.Context, locker *quorum.Locker) (*quorum.Lock, error) {
	slots := semaphore.New(locker, l.names[0], l.slots)
	switch {
	case l.slots > 0 && l.noWait:
		return slots.TryAcquire(ctx)
	case l.slots > 0:
		return slots.Acquire(ctx)
	case l.noWait:
		return locker.TryLock(ctx, l.names...)
	}
	return locker.Lock(ctx, l.names...)
}

// diedHere adds to the error of a held lock how to free it, if the holder was a process of this host that is gone.
// Containers may share a host's name without sharing its processes: the operator decides.
func (l *line) diedHere(err error) error {
	var held *quorum.Error
	host, _ := os.Hostname()
	if l.slots > 0 || !errors.As(err, &held) || held.HolderIdentity.Host != host || held.HolderIdentity.PID <= 0 ||
		syscall.Kill(held.HolderIdentity.PID, 0) != syscall.ESRCH {
		return err
	}
	return fmt.Errorf("%w; this host has no process %d: if the holder did not run in a container, it is dead, and this frees its lock: %s",
		err, held.HolderIdentity.PID, l.flags.UnlockLine(held.Holder, l.names...))
}

// refusal adds to the error of a lock that was not acquired the exit code for it.
func (l *line) refusal(err error, nodes []*node.Node) error {
	var signal interrupted
	var failed *quorum.Error
	switch {
	case cli.CodeOf(err, -1) >= 0:
		return err
	case errors.As(err, &signal):
		return cli.ExitWith(cli.ExitSignalled+int(signal.signal), err)
	case errors.Is(err, quorum.ErrHeld):
		return cli.ExitWith(l.heldCode, l.diedHere(err))
	case !errors.As(err, &failed) || failed.Quorum == 0 && errors.Is(err, quorum.ErrInvalid):
		return cli.ExitWith(cli.ExitLockUsage, err) // a name that cannot be locked
	}
	if errors.Is(err, quorum.ErrUnavailable) {
		err = l.hinted(err, nodes)
	}
	return cli.ExitWith(masters.ExitCode(failed.Nodes.WrappedErrors(), nodes, quorate.Rule{N: len(nodes), Need: failed.Quorum}), err)
}
