package quorum

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
	"github.com/quorumlock/quorumlock/quorum/internal/waiting"
	"github.com/quorumlock/quorumlock/scripts"
)

// DefaultLease is how long one grant lasts without renewal, unless the nodes' max lease ([node.WithMaxLease]) is
// shorter.
const DefaultLease = 30 * time.Second

const (
	minLease   = 10 * time.Millisecond
	minRetry   = time.Millisecond     // with a forgotten unit, as in WithRetry(10, 200), a waiter would flood the masters
	maxRetry   = 24 * time.Hour       // the poll multiplies it by five, without overflow
	maxMaxHold = 365 * 24 * time.Hour // the bound of node.WithMaxLease, too
	noBound    = math.MaxInt64        // of WithWait
)

type settings struct {
	inside.Settings // of tests

	terms    engine.Terms  // MinHold is 0 for none, if not minHoldSet
	wait     time.Duration // how long Lock waits; noBound for no bound
	retry    waiting.Retry
	logger   *slog.Logger // nil for the default one
	hooks    Hooks
	nodeOpts []node.Option

	nodeOptsSet bool // by WithNodeOptions, also of none
	exists      bool // the masters are a deployment already
	newOnly     bool // an option was given that only a new Locker accepts

	label string

	loggerSet  bool
	minHoldSet bool
	leaseSet   bool
}

// Option configures a [Locker].
type Option func(*settings)

// WithLease sets how long one grant lasts, at least 10ms and at most the nodes' max lease ([node.WithMaxLease]; default
// [DefaultLease]). The lock is renewed every third of it.
func WithLease(d time.Duration) Option {
	return func(s *settings) { s.terms.Lease, s.terms.Fixed, s.leaseSet = d, false, true }
}

// WithFixedLease sets how long a lock lasts, from 10ms to the nodes' max lease, and switches renewal off: the lock ends
// by itself. Re-entry does not prolong it; [Lock.Extend] does.
func WithFixedLease(d time.Duration) Option {
	return func(s *settings) { s.terms.Lease, s.terms.Fixed, s.leaseSet = d, true, true }
}

// WithMaxHold bounds how long a lock may be held: 10ms to a year, or 0 for no bound, the default. At the bound the
// lock is released, and its context ends with [ErrLost].
func WithMaxHold(d time.Duration) Option { return func(s *settings) { s.terms.MaxHold = d } }

// WithMinHold keeps a lock on the nodes for at least d from the request that acquired it (default: none). Processes
// whose clocks and timers differ by less than d then do a job once. d is positive and at most a year, at most the max
// hold, and at most a fixed lease less its drift (see [clock.Drift]): nothing renews that lease, and nodes whose
// clocks run fast end it early.
//
// [Lock.Unlock] before the end of d returns at once: the lock's contexts end and the hook Released runs as usual. The
// Locker renews the lock until the end of d, and releases it then. This process and others are refused until then.
//
// The lock ends early if the process exits or the Locker is closed: its keys expire with their leases. So a program
// that exits when its job is done needs a lease longer than d ([WithLease]). The lock also ends early if too few
// nodes keep it, or if an operator's ForceUnlock takes it. An Acquired hook that panics releases the lock at once.
func WithMinHold(d time.Duration) Option {
	return func(s *settings) { s.terms.MinHold, s.minHoldSet = d, true }
}

// WithStopBefore ends the contexts of a lock d before its deadline (default 0), so that the work can stop in good
// order while the lock is held. The lock is held, and renewed, until Unlock or the deadline ([Lock.Valid],
// [Lock.Deadline]). Once the contexts have ended, a renewal does not bring them back. d is at most half of the lease,
// less the drift of clocks, since with more a late renewal would already end the work; and less than the max hold. If
// masters report that they no longer have the lock, it is lost at once.
//
// An attempt that leaves less than d is late: it acquires no lock. The contexts' cause wraps [ErrLost]. A lock whose
// contexts have ended is not entered again.
func WithStopBefore(d time.Duration) Option {
	return func(s *settings) { s.terms.StopBefore = d }
}

// WithWait bounds how long calls that acquire wait: [Locker.Lock], [Locker.Do], and the calls of [RWLock] and
// of a semaphore (default: no bound, and [math.MaxInt64] means the same). The bound ends only the waiting. A deadline of
// their context also ends the work, because it is the parent of the lock's context. With 0 they do not wait for a
// release, like [Locker.TryLock]. WithWait does not bound TryLock. d must not be negative.
//
// The error of a call that gives up wraps [ErrNotAcquired] and the reason of the last attempt, but no
// error of the context.
func WithWait(d time.Duration) Option { return func(s *settings) { s.wait = d } }

// WithDrift sets by how much the rates of two clocks may differ, as a fraction from 0 to below 1 (default
// [clock.DefaultDriftFactor], 0.01). A holder stops relying on its lock before the lease ends, by this
// part of the lease plus 2 ms.
func WithDrift(factor float64) Option { return func(s *settings) { s.terms.Drift = factor } }

// WithRetry sets how long [Locker.Lock] pauses between attempts (default 10ms and 200ms): min is at least 1ms, and
// max from min to 24h.
//
// If too few nodes answer for a release to be heard, the pause is random: about min at first, up to twice as long
// after each failure, and at most min/2 + max. Otherwise a release causes the next attempt, or a poll does, 2.5 to 5
// times max after the last. Calls in one process that wait for the same names use the shortest bounds among them.
//
// A Locker that waits for n sets of names polls for each set no more often than every n/4 to n/2 ms. With the
// defaults, that is longer than these bounds from about 2,000 sets on.
func WithRetry(min, max time.Duration) Option {
	return func(s *settings) { s.retry = waiting.Retry{Min: min, Max: max} }
}

// WithLogger sets the logger for what errors do not show: a lock is lost, or calls of Lock begin to
// wait because nodes are down or in quarantine. Nodes that [Open] opens log to it, too (see
// [node.WithLogger]). The default is what [slog.Default] returns when there is something to log. To
// log nothing, use [slog.DiscardHandler].
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) { s.logger, s.loggerSet = l, true }
}

// WithLabel adds a free text to the [Identity] of a new Locker, for people who look for the holder
// of a lock: the job, say, or the deployment. It is not a secret: everyone who may read the masters
// may read it. At most 255 bytes of printable UTF-8 (default: none).
func WithLabel(label string) Option { return func(s *settings) { s.label, s.newOnly = label, true } }

// WithoutFounding makes a new Locker assume that its masters are a deployment already: it never
// founds one (default: a Locker founds one if all masters are blank). Give it to all clients once the
// first has locked. Without it, a client with an old list may found a second deployment next to the
// present one, on masters that were removed, wiped and left running: they look new. With it, a
// master that lost its data is used again only once a majority accepts this client: see "The list of masters" in
// docs/operations.md for a majority that lost it.
func WithoutFounding() Option {
	return func(s *settings) { s.exists, s.newOnly = true, true }
}

// WithNodeOptions sets the options of the nodes that [Open] opens. All nodes get the same, so
// [node.WithName] is for a single node. [New] refuses it.
func WithNodeOptions(opts ...node.Option) Option {
	return func(s *settings) { s.nodeOpts, s.nodeOptsSet, s.newOnly = append(s.nodeOpts, opts...), true, true }
}

func defaults() settings {
	return settings{
		terms: engine.Terms{Terms: lease.Terms{Lease: DefaultLease, Drift: clock.DefaultDriftFactor}}, wait: noBound,
		retry:    waiting.Retry{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		Settings: inside.Settings{Clock: clock.System(), Random: rand.NewPCG(rand.Uint64(), rand.Uint64())},
	}
}

// log returns the logger. A program may set the default one after it has made its Locker.
func (s *settings) log() *slog.Logger { return cmp.Or(s.logger, slog.Default()) }

// isReader reports whether the settings are a reader's.
func (s *settings) isReader() bool { return s.terms.Mode == lease.Read }

// apply applies options. It refuses a nil one.
func (s *settings) apply(opts []Option) error {
	for i, opt := range opts {
		if opt == nil {
			return fmt.Errorf("quorumlock: %w: option %d is nil", ErrInvalid, i+1)
		}
		opt(s)
	}
	return nil
}

// check returns what is wrong with the settings, or nil. It shortens the default lease to the
// nodes' max lease.
func (s *settings) check(maxLease time.Duration, quorum quorate.Rule) error {
	t := &s.terms
	if !s.leaseSet {
		t.Lease = min(t.Lease, maxLease)
	}
	t.Quorum, t.Millis = quorum, scripts.ToMillis(t.Lease)
	drift := clock.Drift(t.Lease, t.Drift)
	bad := func(format string, args ...any) error {
		return fmt.Errorf("quorumlock: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case t.Lease < minLease:
		return bad("lease %v is not from %v to %v, the nodes' max lease", t.Lease, minLease, maxLease)
	case t.Lease > maxLease:
		instead := "a lock is renewed, so a longer hold needs no longer lease"
		if t.Fixed {
			instead = "to bound a longer hold, renew with WithLease, and use WithMaxHold"
		}
		return bad("lease %v is not from %v to %v, the nodes' max lease; %s", t.Lease, minLease, maxLease, instead)
	case !(t.Drift >= 0 && t.Drift < 1):
		return bad("drift factor %v is not from 0 to below 1", t.Drift)
	case drift >= t.Lease:
		return bad("drift factor %v leaves nothing of a lease of %v", t.Drift, t.Lease)
	case t.MaxHold != 0 && (t.MaxHold < minLease || t.MaxHold > maxMaxHold):
		return bad("max hold %v is not from %v to %v", t.MaxHold, minLease, maxMaxHold)
	case s.minHoldSet && t.MinHold <= 0 || t.MinHold > maxMaxHold:
		return bad("min hold %v is not above 0 and at most %v", t.MinHold, maxMaxHold)
	case t.MaxHold != 0 && t.MinHold > t.MaxHold:
		return bad("min hold %v is above the max hold %v", t.MinHold, t.MaxHold)
	case t.Fixed && t.MinHold > t.Lease-drift:
		return bad("min hold %v is above %v: the fixed lease %v less the drift of clocks", t.MinHold, t.Lease-drift, t.Lease)
	case t.StopBefore < 0 || t.StopBefore > max(t.Lease/2-drift, 0):
		return bad("stop before %v is not from 0 to %v: half of the lease, less the drift of clocks", t.StopBefore, max(t.Lease/2-drift, 0))
	case t.MaxHold != 0 && t.StopBefore >= t.MaxHold:
		return bad("stop before %v is not below the max hold %v", t.StopBefore, t.MaxHold)
	case s.wait < 0:
		return bad("wait %v is negative", s.wait)
	case s.retry.Min < minRetry || s.retry.Max < s.retry.Min || s.retry.Max > maxRetry:
		return bad("retry times %v and %v are not in order, from %v to %v", s.retry.Min, s.retry.Max, minRetry, maxRetry)
	case !scripts.ValidLabel(s.label):
		return bad("the label is not printable UTF-8 of at most %d bytes", scripts.MaxLabel)
	case s.Clock == nil:
		return bad("the clock is nil")
	case s.Random == nil:
		return bad("the source of randomness is nil")
	case s.loggerSet && s.logger == nil:
		return bad("the logger is nil")
	}
	return nil
}

// differences describes how other settings would make another lock: another lease, max hold,
// min hold, stop or drift. It is empty when they make the same.
func (s *settings) differences(other *settings) string {
	if s == other {
		return ""
	}
	var all []string
	mine, theirs := &s.terms, &other.terms
	kinds := map[bool]string{false: "renewed", true: "fixed"}
	for _, of := range []struct{ what, mine, theirs string }{
		{"lease", mine.Lease.String(), theirs.Lease.String()},
		{"lease", kinds[mine.Fixed], kinds[theirs.Fixed]},
		{"max hold", boundText(mine.MaxHold, "unbounded"), boundText(theirs.MaxHold, "unbounded")},
		{"min hold", boundText(mine.MinHold, "none"), boundText(theirs.MinHold, "none")},
		{"stop before", boundText(mine.StopBefore, "none"), boundText(theirs.StopBefore, "none")},
		{"drift factor", fmt.Sprint(mine.Drift), fmt.Sprint(theirs.Drift)},
	} {
		if of.mine != of.theirs {
			all = append(all, fmt.Sprintf("its %s is %s, not %s", of.what, of.mine, of.theirs))
		}
	}
	return strings.Join(all, "; ")
}

// boundText is a bound for a message, in which 0 has a word.
func boundText(d time.Duration, none string) string {
	if d == 0 {
		return none
	}
	return d.String()
}
