package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// DefaultObserveInterval is the time between two looks of [Candidate.Observe] at the masters.
const DefaultObserveInterval = time.Second

// ErrNotLeader is the error of [Candidate.IsLeader] while the candidate does not lead.
var ErrNotLeader = errors.New("leader: not the leader")

// Candidate takes part in one election. One that never campaigns only observes. It is safe for
// concurrent use.
type Candidate struct {
	locker  *quorum.Locker
	name    string
	observe time.Duration // between two looks

	mu      sync.Mutex
	current *Term // the one with the highest token, which may be over; nil for none
}

// Option configures a Candidate.
type Option func(*Candidate)

// WithObserveInterval sets the time between two looks of [Candidate.Observe] at the masters, at
// least 1ms (default [DefaultObserveInterval]). A look costs each master one command, and
// another one while somebody leads.
func WithObserveInterval(d time.Duration) Option { return func(c *Candidate) { c.observe = d } }

// New returns a candidate for the election of that name. It asks no master. Candidates of one
// election use the same name and the same masters. The name is also the lock's, and the rules of
// [quorum.Locker.Lock] apply: a program that locks it takes part in the election. The caller owns the
// locker, which may serve several candidates and other locks, and closes it.
//
// The error wraps [quorum.ErrInvalid] for a nil locker, a name that cannot be locked, or an option that is not valid,
// here or in [quorum.Locker.With], and [quorum.ErrClosed] for a locker that was closed.
func New(locker *quorum.Locker, name string, opts ...Option) (*Candidate, error) {
	if locker == nil {
		return nil, fmt.Errorf("leader: %w: the locker is nil", quorum.ErrInvalid)
	}
	c := &Candidate{locker: locker, name: name, observe: DefaultObserveInterval}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("leader: %w: an option is nil", quorum.ErrInvalid)
		}
		opt(c)
	}
	if c.observe < time.Millisecond {
		return nil, fmt.Errorf("leader: %w: an observe interval of %v is below 1ms", quorum.ErrInvalid, c.observe)
	}
	if err := locker.CheckNames(name); err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	return c, nil
}

// Campaign waits until the candidate leads, or ctx ends. The term lasts until [Term.Resign], and is
// renewed in the background, unless the locker's lease is fixed or its max hold ends. ctx is also
// the parent of the term's context, so it should span the work, not only the waiting: when ctx
// ends, the term's context ends, but the candidate leads until it resigns.
//
// A candidate that leads already waits for its own term to end, as for any other. Campaign with the
// context of a term of this election and this locker, or one derived from it, returns
// [quorum.ErrInvalid]: it would wait for itself.
//
// The error wraps the one of [quorum.Locker.Lock]: when ctx ends, [quorum.ErrNotAcquired], the reason
// of the last attempt ([quorum.ErrHeld] while another candidate leads) and the context's error.
// Campaign does not wait if the locker is closed ([quorum.ErrClosed]), or if waiting cannot succeed,
// because of a wrong password, say (the masters' errors). It does wait for masters that are down or in
// quarantine. [quorum.WithWait] of the locker bounds the waiting.
func (c *Candidate) Campaign(ctx context.Context) (*Term, error) { return c.campaign(ctx, c.locker) }

func (c *Candidate) campaign(ctx context.Context, locker *quorum.Locker) (*Term, error) {
	lock, err := locker.Lock(ctx, c.name)
	if err != nil {
		return nil, fmt.Errorf("leader: campaign: %w", err)
	}
	// The flow of a term enters its own lock again. That would be a second term with the same
	// token.
	if held, within := quorum.FromContext(ctx, c.name); within && held.Owner() == lock.Owner() {
		lock.Unlock(ctx) // lowers the depth
		return nil, fmt.Errorf("leader: campaign for %q: %w: the context belongs to a holder of this lock",
			c.name, quorum.ErrInvalid)
	}
	t := &Term{lock: lock}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.current.Token() < t.Token() { // a later term may have come here before
		c.current = t
	}
	return t, nil
}

// ID returns the id by which observers know this candidate: the [Term.ID] of the term in which it leads,
// empty while it does not lead.
func (c *Candidate) ID() string {
	if t := c.term(); t != nil {
		return t.ID()
	}
	return ""
}

// IsLeader returns nil while this candidate leads and its term's context has not ended, otherwise
// [ErrNotLeader]. It reads the local clock and asks no master, so it never blocks and does not use
// ctx; it is right even after the process was paused. Only a term of this Candidate counts: one that
// neither runs nor campaigns never leads.
//
// The result may be out of date before the caller acts on it. Work that must end with the term
// belongs in Run, and writes that must not come late carry [Term.Token].
//
// It implements the Elector interface of github.com/go-co-op/gocron/v2.
func (c *Candidate) IsLeader(ctx context.Context) error {
	if t := c.term(); t == nil || t.Context().Err() != nil {
		return ErrNotLeader
	}
	return nil
}

// term returns the term in which the candidate leads, or nil.
func (c *Candidate) term() *Term {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || !c.current.Valid() {
		return nil
	}
	return c.current
}
