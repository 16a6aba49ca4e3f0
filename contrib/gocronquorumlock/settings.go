package gocronquorumlock

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// Option configures a [Locker].
type Option func(*settings)

type settings struct {
	period, skew  time.Duration
	minHold, wait time.Duration
	waitSet       bool
}

// WithMinHold sets for how long the masters keep the lock of a run at least (default: a third of
// the period, and 30 s at most). It is also the lock's lease, so that the lock of a process that
// dies ends neither much sooner nor much later. It is at most the masters' max lease, and
//
//	skew + wait < min hold            or a scheduler whose tick comes late runs the job again
//	2 × min hold + skew < period      or the next tick may find the lock of a process that died
//
// The second line implies that the min hold is below the period less the skew.
func WithMinHold(d time.Duration) Option { return func(s *settings) { s.minHold = d } }

// WithWait sets for how long a scheduler waits for the lock at a tick (default: half of what the
// skew leaves of the min hold). The wait rides out schedulers that took the masters' votes from
// each other, and masters that do not answer: the job runs late by so much, or is skipped at that
// tick.
func WithWait(d time.Duration) Option {
	return func(s *settings) { s.wait, s.waitSet = d, true }
}

func newSettings(period, skew time.Duration, opts []Option) (*settings, error) {
	s := &settings{period: period, skew: skew, minHold: min(period/3, quorum.DefaultLease)}
	for i, opt := range opts {
		if opt == nil {
			return nil, invalidf("option %d is nil", i+1)
		}
		opt(s)
	}
	if !s.waitSet {
		s.wait = (s.minHold - s.skew) / 2
	}
	return s, s.check()
}

// check returns what is wrong with the settings, or nil.
func (s *settings) check() error {
	switch {
	case s.period <= 0:
		return invalidf("period %v is not positive", s.period)
	case s.skew <= 0:
		return invalidf("skew %v is not positive: no two schedulers ask at one instant", s.skew)
	case s.minHold <= s.skew:
		return invalidf("min hold %v is not above the skew %v: a late scheduler would run the job again",
			s.minHold, s.skew)
	case s.minHold-s.skew <= s.wait:
		return invalidf("min hold %v is not above the skew %v and the wait %v together: "+
			"a late scheduler would run the job again", s.minHold, s.skew, s.wait)
	case s.minHold > (s.period-s.skew-1)/2:
		return invalidf("twice the min hold %v is not below the period %v less the skew %v: "+
			"the next tick would find the lock of a process that died", s.minHold, s.period, s.skew)
	}
	return nil
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("gocronquorumlock: %w: %s", quorum.ErrInvalid, fmt.Sprintf(format, args...))
}
