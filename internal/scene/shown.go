package scene

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
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

// hookKey is what LockStart puts into the context that Attempt and LockEnd of the call get, and no lock.
type hookKey struct{}

// hooks has what a process's hooks are told in the result; of renewals, too, if all is set.
func (p *play) hooks(name string, all bool) quorum.Hooks {
	say := func(what string, args ...any) { p.say(name, "%s hook: "+what, append([]any{name}, args...)...) }
	h := quorum.Hooks{
		LockStart: func(ctx context.Context, names []string) context.Context {
			say("start %v", names)
			return context.WithValue(ctx, hookKey{}, name)
		},
		Acquired: func(l *quorum.Lock) {
			testkit.Check(p.t, l.Context().Value(hookKey{}) == nil, "%s: the lock's context derives from the hooks'", name)
			say("acquired %v, depth %d", l.Names(), l.Depth())
		},
		Released: func(l *quorum.Lock) { say("released %v", l.Names()) },
		Lost:     func(l *quorum.Lock, err error) { say("lost %v", l.Names()) },
		Attempt: func(ctx context.Context, e quorum.AttemptEvent) {
			testkit.Check(p.t, ctx.Value(hookKey{}) == name, "%s: Attempt has another context than LockStart made", name)
			testkit.Check(p.t, (e.Outcome == "acquired") == (e.Err == nil), "%s: an attempt is %s, with %v", name, e.Outcome, e.Err)
			back := ""
			if e.WriteBacks > 0 {
				back = fmt.Sprintf(", %d write-backs", e.WriteBacks)
			}
			say("attempt %v%s %s (%d granted, %d refused, %d quarantined, %d unknown)%s", e.Names, slots(e.Slots), e.Outcome,
				e.Granted, e.Refused, e.Quarantined, e.Unknown, back)
		},
		LockEnd: func(ctx context.Context, e quorum.LockEvent) {
			testkit.Check(p.t, ctx.Value(hookKey{}) == name, "%s: LockEnd has another context than LockStart made", name)
			testkit.Check(p.t, (e.Lock == nil) == (e.Err != nil), "%s: a call ends with %v and %v", name, e.Lock, e.Err)
			say("end %v %s, attempt %d%s", e.Names, e.Outcome, e.Attempts, after(e.Duration))
		},
	}
	if !all {
		return h
	}
	h.Renewing = func(l *quorum.Lock, left, lease time.Duration) {
		say("renewing %v, %v left of %v", l.Names(), left.Round(time.Millisecond), lease)
	}
	h.Renewed = func(e quorum.RenewalEvent) {
		said := ""
		if e.Err != nil {
			said = ": " + p.failed(e.Err)
		}
		p.say(name+" hook "+e.Node, "%s hook: %s renewed %d, forgotten %d, taken %d, failed %d%s", name, e.Node, e.Renewed, e.Forgotten, e.Taken,
			e.Failed, said)
	}
	h.Repaired = func(e quorum.RepairEvent) {
		said := "repaired"
		if e.Err != nil {
			said = "not repaired: " + p.failed(e.Err)
		}
		p.say(name+" hook "+e.Node, "%s hook: %v on %s %s", name, e.Lock.Names(), e.Node, said)
	}
	return h
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
