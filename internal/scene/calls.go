package scene

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
)

// process makes lockers, each of a process of its own.
func (p *play) process(l line) {
	rule := quorum.Rule(quorum.Majority)
	if l.text("rule") == "all" {
		rule = quorum.All
	}
	for _, name := range l.words {
		of := p.w.NewProcessAt(name, 0)
		var nodes []*node.Node
		for _, master := range p.mastersOf(l) {
			of.Far(master, time.Duration(1000*(master+1)+100*of.Number)) // no two answers come at one instant
			random := inside.Option[node.Option](func(s *inside.Settings) { s.Random = p.w.Source("probes", of.Number, master) })
			n, err := of.Node(master, append(l.nodeSettings(p.logger(name, l.text("log") == "all")), random)...)
			testkit.Must(p.t, err)
			nodes = append(nodes, n)
		}
		opts := []quorum.Option{quorum.WithLabel(name), quorum.WithLogger(p.logger(name, l.has("log"))),
			inside.Option[quorum.Option](func(s *inside.Settings) { s.Clock, s.Random = of.Clock, of })}
		if l.has("hooks") {
			opts = append(opts, quorum.WithHooks(p.hooks(name, l.text("hooks") == "all")))
		}
		locker, err := quorum.New(nodes, rule, append(opts, l.settings()...)...)
		if err != nil {
			p.say(name, "%s: %s", name, p.failed(err))
			continue
		}
		p.mu.Lock()
		p.lockers[name] = locker
		p.mu.Unlock()
		p.settle()
	}
	p.count()
}

// locker is the line's, with its options.
func (p *play) locker(l line) *quorum.Locker {
	p.t.Helper()
	of, ok := p.lockers[l.words[0]]
	testkit.Require(p.t, ok, "there is no process %s", l.words[0])
	if opts := l.settings(); len(opts) > 0 {
		return of.With(opts...)
	}
	return of
}

// longest is how long a call may take that is not told to wait.
const longest = time.Hour

// acquire is for every command that gets a lock.
func (p *play) acquire(l line) {
	p.t.Helper()
	name, get := l.as(), p.getter(l)
	p.calling(l, name, l.cmd == "wait", func(ctx context.Context) (got string, err error) {
		lock, err := get(ctx)
		if err != nil {
			return "", err
		}
		p.mu.Lock()
		p.locks[name] = lock
		p.mu.Unlock()
		p.watch(name, lock)
		return p.lock(lock), nil
	})
}

// calling makes a call, and tells what it got. It returns then, or at once if the call may wait.
func (p *play) calling(l line, name string, mayWait bool, do func(context.Context) (got string, err error)) {
	p.t.Helper()
	ctx, cancel := p.context(l)
	p.calls[name] = cancel
	done, began := make(chan struct{}), time.Now()
	go func() {
		defer close(done)
		got, err := do(ctx)
		if err != nil {
			cancel()
			p.say(name, "%s: %s%s", name, p.failed(err), took(began))
			return
		}
		p.say(name, "%s: %s%s", name, got, took(began))
	}()
	if mayWait {
		synctest.Wait()
		return
	}
	select {
	case <-done:
	case <-time.After(longest):
		p.say(name, "%s: waits for longer than %v", name, longest)
	}
}

// context is the call's: that of a lock, with a deadline, or ended.
func (p *play) context(l line) (context.Context, context.CancelFunc) {
	p.t.Helper()
	ctx := p.t.Context()
	if l.has("in") {
		ctx = p.named(l.text("in")).Context()
		if l.has("detached") { // from its end
			ctx = context.WithoutCancel(ctx)
		}
	}
	if l.has("deadline") {
		return context.WithTimeout(ctx, l.duration("deadline", 0))
	}
	ctx, cancel := context.WithCancel(ctx)
	if l.has("ended") {
		cancel()
	}
	return ctx, cancel
}

// getter is the call of the line.
func (p *play) getter(l line) func(context.Context) (*quorum.Lock, error) {
	p.t.Helper()
	locker, names := p.locker(l), l.words[1:]
	first := ""
	if len(names) > 0 {
		first = names[0]
	}
	switch tries := strings.HasPrefix(l.cmd, "try"); {
	case l.cmd == "takeover":
		return func(ctx context.Context) (*quorum.Lock, error) { return locker.TakeOver(ctx, p.ticket) }
	case l.has("sem"):
		slots := p.semaphore(l)
		k := l.integers("k")
		if tries {
			return func(ctx context.Context) (*quorum.Lock, error) { return slots.TryAcquire(ctx, k...) }
		}
		return func(ctx context.Context) (*quorum.Lock, error) { return slots.Acquire(ctx, k...) }
	case l.cmd == "tryrlock":
		return locker.RWLock(first).TryRLock
	case l.cmd == "rlock" || l.has("read"):
		return locker.RWLock(first).RLock
	case tries:
		return func(ctx context.Context) (*quorum.Lock, error) { return locker.TryLock(ctx, names...) }
	}
	return func(ctx context.Context) (*quorum.Lock, error) { return locker.Lock(ctx, names...) }
}

// semaphore is the line's: sem=NAME/SIZE.
func (p *play) semaphore(l line) *semaphore.Semaphore {
	p.t.Helper()
	name, size, _ := strings.Cut(l.text("sem"), "/")
	n, err := strconv.Atoi(size)
	testkit.Must(p.t, err)
	return semaphore.New(p.locker(l), name, n)
}

// watch says when a lock's context ends, unless its owner gave the lock up.
func (p *play) watch(name string, lock *quorum.Lock) {
	context.AfterFunc(lock.Context(), func() {
		cause := context.Cause(lock.Context())
		if cause == quorum.ErrReleased || cause == quorum.ErrHandedOver || p.t.Context().Err() != nil {
			return
		}
		when := ""
		if deadline := lock.Deadline(); !deadline.IsZero() {
			switch left := time.Until(deadline).Round(time.Millisecond); {
			case left > 0:
				when = fmt.Sprintf(" %v before its deadline", left)
			case left < 0:
				when = fmt.Sprintf(" %v after its deadline", -left)
			default:
				when = " at its deadline"
			}
		}
		p.say(name+"~", "%s: its context ended%s: %s", name, when, p.failed(cause))
	})
}

func (p *play) cancel(l line) {
	name := strings.Join(l.words, " ")
	end, ok := p.calls[name]
	testkit.Require(p.t, ok, "there is no call %q", name)
	end()
}

// named is a lock.
func (p *play) named(name string) *quorum.Lock {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	lock, ok := p.locks[name]
	testkit.Require(p.t, ok, "there is no lock %s", name)
	return lock
}

// handle is the line's lock, and its name.
func (p *play) handle(l line) (*quorum.Lock, string) {
	p.t.Helper()
	return p.named(l.name()), l.name()
}

// use is for every command of a lock that is held.
func (p *play) use(l line) {
	p.t.Helper()
	lock, name := p.handle(l)
	ctx, cancel := p.context(l)
	defer cancel()
	began := time.Now()
	var err error
	switch l.cmd {
	case "unlock":
		err = lock.Unlock(ctx)
	case "extend":
		err = lock.Extend(ctx, l.duration("for", 0))
	case "downgrade":
		err = lock.Downgrade(ctx)
	case "handover":
		var ticket string
		if ticket, err = lock.HandOver(ctx); err == nil {
			p.ticket = ticket
		}
	}
	p.did(l.cmd, name, err, began)
}

// did is the result of a call that has no other: nothing, if it does its work at once.
func (p *play) did(what, name string, err error, began time.Time) {
	switch after := took(began); {
	case err != nil:
		p.say(name, "%s: %s%s", name, p.failed(err), after)
	case after != "":
		p.say(name, "%s: %s%s", name, what, after)
	}
}

func (p *play) closes(l line) {
	for _, name := range l.words {
		testkit.Must(p.t, p.lockers[name].Close())
	}
}
