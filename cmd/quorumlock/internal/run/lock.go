//go:build unix

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/ownerfile"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
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

// stay waits until the lock has been held for -min-hold, or is lost. It returns false when a signal ends the waiting.
func (l *line) stay(lock *quorum.Lock, began clock.Instant, signals <-chan os.Signal) bool {
	left := began.Add(l.minHold).Sub(clock.System().Now())
	if left <= 0 {
		return true
	}
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
	var errs []error
	if failed.Nodes != nil {
		errs = failed.Nodes.Errors
	}
	if errors.Is(err, quorum.ErrUnavailable) {
		err = l.hinted(err, nodes)
	}
	return cli.ExitWith(masters.ExitCode(errs, nodes, quorate.Rule{N: len(nodes), Need: failed.Quorum}), err)
}

// openOwner opens the file of -owner-file, if it is given. The caller closes it. The error has its exit code. A file
// in use is always reported: the lock may be free while a process of a dead run's job is alive.
func (l *line) openOwner(report func(error)) (err error) {
	if l.file == "" {
		return nil
	}
	l.owner, err = ownerfile.Open(l.file, true)
	switch {
	case errors.Is(err, ownerfile.ErrInUse):
		if l.heldCode == cli.ExitOK {
			report(err)
		}
		return cli.ExitWith(l.heldCode, err)
	case err != nil:
		return cli.ExitWith(cli.ExitConfiguration, err)
	}
	return nil
}

// takeOwner releases the lock of a run that died, by the file that it left behind, and writes to the file who may get
// the lock now. It reports a dead run's lock that stays until its lease ends: then the file keeps that owner until
// there is a lock. The error has its exit code.
func (l *line) takeOwner(ctx context.Context, locker *quorum.Locker, nodes []*node.Node, report func(error)) error {
	l.record = ownerfile.New(locker.ID(), l.names, l.slots, nodes)
	if dead := l.owner.Record(); dead != nil {
		if err := release(ctx, locker, nodes, *dead); err != nil {
			report(fmt.Errorf("the lock of the owner in %q is not released: %w", l.file, err))
			return nil
		}
		report(fmt.Errorf("released the lock of %q, a run that died", dead.Owner))
	}
	if err := l.owner.Write(l.record); err != nil {
		return cli.ExitWith(cli.ExitConfiguration, fmt.Errorf("the owner file: %w", err))
	}
	return nil
}

func release(ctx context.Context, locker *quorum.Locker, nodes []*node.Node, dead ownerfile.Record) error {
	if err := dead.Foreign(nodes); err != nil {
		return err
	}
	slots := semaphore.New(locker, dead.Names[0], dead.Slots)
	switch {
	case !scripts.ValidOwner(dead.Owner):
		return releaseAll(ctx, locker, slots, dead)
	case dead.Slots > 0:
		return operator.ForceUnlockOwnerSlots(ctx, slots, dead.Owner, dead.Slot)
	}
	return operator.ForceUnlockOwner(ctx, locker, dead.Owner, dead.Names...)
}

// releaseAll releases the locks of any owner of a locker: the run died before its file had the owner.
func releaseAll(ctx context.Context, locker *quorum.Locker, slots *semaphore.Semaphore, dead ownerfile.Record) error {
	var states []operator.Status
	var err error
	if dead.Slots > 0 {
		states, err = operator.InspectSlots(ctx, slots)
	} else {
		for _, name := range dead.Names {
			state, failed := operator.Inspect(ctx, locker, name)
			states, err = append(states, state), cmp.Or(err, failed)
		}
	}
	for _, state := range states {
		for _, n := range state.Nodes {
			switch {
			case !ownerfile.IsOf(n.Owner, dead.Owner):
			case state.Slot >= 0:
				err = cmp.Or(err, operator.ForceUnlockOwnerSlots(ctx, slots, n.Owner, state.Slot))
			default:
				err = cmp.Or(err, operator.ForceUnlockOwner(ctx, locker, n.Owner, state.Name))
			}
		}
	}
	return err
}
