package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// sentinels are the errors that a user tests for.
var sentinels = []struct {
	name string
	err  error
}{
	{"not acquired", quorum.ErrNotAcquired}, {"held", quorum.ErrHeld}, {"quarantined", quorum.ErrQuarantined},
	{"unavailable", quorum.ErrUnavailable}, {"membership", quorum.ErrMembership}, {"permanent", quorum.ErrPermanent},
	{"lost", quorum.ErrLost}, {"not held", quorum.ErrNotHeld}, {"released", quorum.ErrReleased},
	{"handed over", quorum.ErrHandedOver}, {"closed", quorum.ErrClosed}, {"invalid", quorum.ErrInvalid},
	{"not leader", leader.ErrNotLeader}, {"canceled", context.Canceled}, {"deadline", context.DeadlineExceeded},
}

// failed is an error's text, and what it wraps.
func (p *play) failed(err error) string {
	var wraps []string
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			wraps = append(wraps, s.name)
		}
	}
	return fmt.Sprintf("%s [%s]", strings.TrimPrefix(err.Error(), "quorumlock: "), strings.Join(wraps, ", "))
}

// plain has processes' names in place of what differs from run to run.
func (p *play) plain(text string) string {
	for name, l := range p.lockers {
		text = strings.ReplaceAll(text, l.Identity().String(), name)
		text = strings.ReplaceAll(text, l.ID(), name)
	}
	for i, token := range p.tokens {
		text = strings.ReplaceAll(text, fmt.Sprint(token), fmt.Sprint(i+1))
	}
	return text
}

// owner is the opposite of plain, for an owner.
func (p *play) owner(text string) string {
	name, number, _ := strings.Cut(text, ":")
	if l, ok := p.lockers[name]; ok {
		return l.ID() + ":" + number
	}
	return text
}

// lock is what a lock has.
func (p *play) lock(lock *quorum.Lock) string {
	said := "token " + p.token(lock.Token())
	if lock.Slots() != nil {
		said += fmt.Sprintf(", slots %v", lock.Slots())
	}
	if lock.Shared() {
		said += ", for reading"
	}
	if lock.Depth() != 1 {
		said += fmt.Sprintf(", depth %d", lock.Depth())
	}
	return said
}

// token numbers tokens as they are seen. One that is lower than an earlier one says so.
func (p *play) token(token uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token > scripts.MaxToken {
		return fmt.Sprint(token)
	}
	at := slices.Index(p.tokens, token)
	if at < 0 {
		at = len(p.tokens)
		p.tokens = append(p.tokens, token)
	}
	said := fmt.Sprint(at + 1)
	if highest := slices.Max(p.tokens[:at+1]); highest > token {
		said += fmt.Sprintf(", lower than token %d", slices.Index(p.tokens, highest)+1)
	}
	return said
}

func (p *play) hooks(name string) quorum.Hooks {
	say := func(what string, args ...any) { p.say(name, "%s hook: "+what, append([]any{name}, args...)...) }
	return quorum.Hooks{
		LockStart: func(ctx context.Context, names []string) context.Context {
			say("start %v", names)
			return ctx
		},
		Acquired: func(l *quorum.Lock) { say("acquired %v", l.Names()) },
		Released: func(l *quorum.Lock) { say("released %v", l.Names()) },
		Lost:     func(l *quorum.Lock, err error) { say("lost %v", l.Names()) },
		Attempt: func(_ context.Context, e quorum.AttemptEvent) {
			say("attempt %v%s %s", e.Names, slots(e.Slots), e.Outcome)
		},
		LockEnd: func(_ context.Context, e quorum.LockEvent) { say("end %v %s", e.Names, e.Outcome) },
	}
}

func slots(all []int) string {
	if all == nil {
		return ""
	}
	return fmt.Sprint(" slots ", all)
}

// logger has a process's log lines in the result.
func (p *play) logger(name string, wanted bool) *slog.Logger {
	if !wanted {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(writer(func(line []byte) {
		_, text, _ := strings.Cut(string(line), " level=")
		p.say(name, "%s log: %s", name, strings.TrimSpace(text))
	}), nil))
}

type writer func([]byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

var _ io.Writer = writer(nil)
