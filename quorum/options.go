package quorum

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// DefaultLease is how long one grant lasts without renewal, where the nodes' max lease is no shorter.
const DefaultLease = 30 * time.Second

const (
	minLease   = 10 * time.Millisecond
	maxRetry   = 24 * time.Hour       // five times that is far from the longest duration there is
	maxMaxHold = 365 * 24 * time.Hour // as of the nodes' max lease
)

// Hooks are told what happens to locks. Acquired and Released run in the goroutine that locks or unlocks, Lost in one of
// its own, for locks that are lost together one after the other. Nil ones are not called.
//
// Of every lock Acquired is called once, and at most one of the others: Released when it is unlocked, before the nodes have confirmed
// (Unlock may still return an error), or Lost, which may come before Acquired has returned. Entering a lock again calls nothing, nor
// does Close.
//
// A hook that panics, or ends its goroutine, leaves nothing behind: when Acquired does, the lock is released, which calls nothing.
type Hooks struct {
	Acquired func(*Lock)
	Released func(*Lock)
	Lost     func(l *Lock, err error) // err wraps ErrLost and says which nodes failed, and how
}

type settings struct {
	lease    time.Duration
	fixed    bool // never renewed
	maxHold  time.Duration
	drift    float64
	retry    waiting.Retry
	logger   *slog.Logger
	hooks    Hooks
	clock    clock.Clock
	nodeOpts []node.Option
	random   rand.Source

	leaseSet    bool
	leaseMillis scripts.Millis // of lease
}

// Option changes how a Locker works.
type Option func(*settings)

// WithLease sets how long one grant lasts, at least 10ms and at most the nodes' max lease (default 30s). The lock renews
// itself every third of it.
func WithLease(d time.Duration) Option {
	return func(s *settings) { s.lease, s.fixed, s.leaseSet = d, false, true }
}

// WithFixedLease sets how long a lock lasts that is never renewed: it ends by itself. Entering it again does not prolong it; Extend
// does.
func WithFixedLease(d time.Duration) Option {
	return func(s *settings) { s.lease, s.fixed, s.leaseSet = d, true, true }
}

// WithMaxHold ends locks that are held for longer, however well they renew, as if they were lost: with ErrLost, and a release
// (default: no bound, as for 0; at most a year).
func WithMaxHold(d time.Duration) Option { return func(s *settings) { s.maxHold = d } }

// WithDrift sets the part of a lease by which clocks may disagree over its length, from 0 to below 1 (default
// clock.DefaultDriftFactor).
func WithDrift(factor float64) Option { return func(s *settings) { s.drift = factor } }

// WithRetry sets the bounds of the random time between the attempts of Lock while no release can be heard of: too few nodes answer
// (default 10ms and 200ms, at most 24h). While one can, Lock asks when it is told, and all the same after 2.5 to 5 times the longer bound.
// Calls of Lock that wait in one process for the same names wait by the shortest bounds among them.
func WithRetry(min, max time.Duration) Option {
	return func(s *settings) { s.retry = waiting.Retry{Min: min, Max: max} }
}

// WithLogger logs what no error is returned for: a lock that was lost, that Lock begins to wait because nodes are down or in
// quarantine, and, of nodes that Open opens, what node.WithLogger does (default: nothing is logged).
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// WithHooks sets the functions that are told what happens to locks.
func WithHooks(h Hooks) Option { return func(s *settings) { s.hooks = h } }

// WithClock sets the clock of a new Locker, for tests (default clock.System).
func WithClock(c clock.Clock) Option { return func(s *settings) { s.clock = c } }

// WithRand sets where the random part of a new Locker's waits comes from, so that a test can replay them. It is called by one
// goroutine at a time (default: a source seeded at random).
func WithRand(source rand.Source) Option { return func(s *settings) { s.random = source } }

// WithNodeOptions sets the options of the nodes that Open opens, all of them alike, so that node.WithName does
// for one node only. New refuses it.
func WithNodeOptions(opts ...node.Option) Option {
	return func(s *settings) { s.nodeOpts = append(s.nodeOpts, opts...) }
}

func defaults() settings {
	return settings{
		lease: DefaultLease, drift: clock.DefaultDriftFactor,
		retry:  waiting.Retry{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		logger: slog.New(slog.DiscardHandler), clock: clock.System(), random: rand.NewPCG(rand.Uint64(), rand.Uint64()),
	}
}

// check says what is wrong with the settings, and fits a lease that nobody chose to the nodes' max lease.
func (s *settings) check(maxLease time.Duration) error {
	if !s.leaseSet {
		s.lease = min(s.lease, maxLease)
	}
	s.leaseMillis = scripts.ToMillis(s.lease)
	bad := func(format string, args ...any) error {
		return fmt.Errorf("quorumlock: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case s.lease < minLease:
		return bad("lease %v is below %v", s.lease, minLease)
	case s.lease > maxLease:
		return bad("lease %v is above the nodes' max lease %v", s.lease, maxLease)
	case !(s.drift >= 0 && s.drift < 1):
		return bad("drift factor %v is not from 0 to below 1", s.drift)
	case clock.Drift(s.lease, s.drift) >= s.lease:
		return bad("drift factor %v leaves nothing of a lease of %v", s.drift, s.lease)
	case s.maxHold < 0:
		return bad("max hold %v is negative", s.maxHold)
	case s.maxHold > maxMaxHold:
		return bad("max hold %v is above %v", s.maxHold, maxMaxHold)
	case s.retry.Min > maxRetry || s.retry.Max > maxRetry:
		return bad("retry times %v and %v are not both at most %v", s.retry.Min, s.retry.Max, maxRetry)
	case s.retry.Min <= 0 || s.retry.Max < s.retry.Min:
		return bad("retry times %v and %v are not positive and in order", s.retry.Min, s.retry.Max)
	case s.clock == nil:
		return bad("the clock is nil")
	case s.random == nil:
		return bad("the source of randomness is nil")
	case s.logger == nil:
		return bad("the logger is nil")
	}
	return nil
}

// differences says in what the settings of a lock differ from those with which it would be another one; empty when in nothing.
func (s *settings) differences(other *settings) string {
	if s == other {
		return ""
	}
	var all []string
	if s.lease != other.lease {
		all = append(all, fmt.Sprintf("its lease is %v, not %v", s.lease, other.lease))
	}
	if kinds := map[bool]string{false: "renewed", true: "fixed"}; s.fixed != other.fixed {
		all = append(all, fmt.Sprintf("its lease is %s, not %s", kinds[s.fixed], kinds[other.fixed]))
	}
	if s.maxHold != other.maxHold {
		all = append(all, fmt.Sprintf("its max hold is %v, not %v", s.maxHold, other.maxHold))
	}
	if s.drift != other.drift {
		all = append(all, fmt.Sprintf("its drift factor is %v, not %v", s.drift, other.drift))
	}
	return strings.Join(all, "; ")
}
