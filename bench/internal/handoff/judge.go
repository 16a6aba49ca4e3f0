package handoff

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

// Round is the result of one run of a plan.
type Round struct {
	// Handoffs are the idle times of a lock that a waiter in another process wanted: from its
	// release until another process, a waiter's or a newcomer's, acquired it.
	Handoffs  []time.Duration
	Newcomers int             // of the handoffs, those to a contender that did not wait at the release
	Regained  int             // the times that the releasing process acquired such a lock next
	Streak    int             // the most acquisitions in a row by one process while another wanted the lock
	Waits     []time.Duration // of all acquisitions, since the call
	Attempts  int
	Sent      int // commands of all clients to all masters; 0 for a peer over other servers
	Usage     measure.Usage
	Overlaps  int // the times that a contender acquired the lock before its last holder released it
	Shares    []int
	Failures  []string
}

// sent are the commands that each peer's clients send, apart from those of its scripts.
var sent = map[string][]string{
	"quorumlock": append([]string{"subscribe", "unsubscribe", "ping"}, measure.ScriptCalls...),
	"redsync":    append([]string{"set"}, measure.ScriptCalls...),
}

// processHold is a hold and the process that had it.
type processHold struct {
	process int
	hold
}

func judge(p Plan, peer string, accounts []account, used measure.Usage) Round {
	r := Round{Shares: make([]int, p.Contenders), Sent: used.Commands.Calls(sent[peer]...), Usage: used}
	r.Usage.Callers = 0 // the workers tell theirs
	locks := make([][]processHold, p.Locks)
	for _, a := range accounts {
		for _, h := range a.Holds {
			lock := h.Contender % p.Locks
			locks[lock] = append(locks[lock], processHold{a.Process, h})
			if h.Acquired > 0 {
				r.Shares[h.Contender]++
				r.Waits = append(r.Waits, h.Acquired.sub(h.Asked))
			}
		}
		r.Attempts += a.Attempts
		r.Usage.Callers += a.CPU
		r.Failures = append(r.Failures, a.Failures...)
	}
	for _, holds := range locks {
		r.judgeLock(holds)
	}
	return r
}

// judgeLock judges each release of one lock.
func (r *Round) judgeLock(holds []processHold) {
	held := slices.DeleteFunc(slices.Clone(holds), func(t processHold) bool { return t.Acquired == 0 })
	slices.SortFunc(held, func(a, b processHold) int { return cmp.Compare(a.Acquired, b.Acquired) })
	streak := 1
	r.Streak = max(r.Streak, min(len(held), 1))
	for i := 1; i < len(held); i++ {
		last, next := held[i-1], held[i]
		streak++
		if next.Acquired < last.Released {
			r.Overlaps++
			streak = 1
			continue
		}
		wanted := slices.ContainsFunc(holds, func(t processHold) bool {
			return t.process != last.process && t.Asked <= last.Released &&
				(t.Acquired == 0 || t.Acquired > last.Released)
		})
		switch {
		case !wanted:
			streak = 1
		case next.process == last.process:
			r.Regained++
			r.Streak = max(r.Streak, streak)
		default:
			streak = 1
			r.Handoffs = append(r.Handoffs, next.Acquired.sub(last.Released))
			if next.Asked > last.Released {
				r.Newcomers++
			}
		}
	}
}

// Sum joins the rounds of one plan.
func Sum(rounds []Round) Round {
	var sum Round
	for _, r := range rounds {
		sum.Handoffs = append(sum.Handoffs, r.Handoffs...)
		sum.Newcomers += r.Newcomers
		sum.Regained += r.Regained
		sum.Streak = max(sum.Streak, r.Streak)
		sum.Waits = append(sum.Waits, r.Waits...)
		sum.Attempts += r.Attempts
		sum.Sent += r.Sent
		sum.Overlaps += r.Overlaps
		sum.Failures = append(sum.Failures, r.Failures...)
		if sum.Shares == nil {
			sum.Shares = make([]int, len(r.Shares))
		}
		for i, n := range r.Shares {
			sum.Shares[i] += n
		}
	}
	return sum
}

// P50 and P99 are percentiles of the handoffs.
func (r Round) P50() time.Duration { return measure.Median(r.Handoffs) }
func (r Round) P99() time.Duration { return measure.Percentile(0.99, r.Handoffs) }

// Spread is the largest and the smallest part of a fair share that a contender got.
func (r Round) Spread() (most, least float64) {
	fair := float64(max(len(r.Waits), 1)) / float64(len(r.Shares))
	return float64(slices.Max(r.Shares)) / fair, float64(slices.Min(r.Shares)) / fair
}

// PerAcquisition is how many attempts and how many commands to all masters an acquisition and its
// release took.
func (r Round) PerAcquisition() (attempts, commands float64) {
	acquired := float64(max(len(r.Waits), 1))
	return float64(r.Attempts) / acquired, float64(r.Sent) / acquired
}

// Details returns everything except the two percentiles, in a line.
func (r Round) Details() string {
	most, least := r.Spread()
	attempts, commands := r.PerAcquisition()
	toMasters := ""
	if r.Sent > 0 {
		toMasters = fmt.Sprintf(" and %.1f commands to all masters", commands)
	}
	text := fmt.Sprintf("%d handoffs, %d of them to a newcomer, %d times regained, at most %d in a row; "+
		"waits p50 %v, p99 %v, longest %v; "+
		"for each of %d acquisitions %.1f attempts%s; "+
		"shares from %.2f to %.2f of a fair one",
		len(r.Handoffs), r.Newcomers, r.Regained, r.Streak, round(measure.Median(r.Waits)),
		round(measure.Percentile(0.99, r.Waits)), round(measure.Percentile(1, r.Waits)),
		len(r.Waits), attempts, toMasters, least, most)
	if r.Overlaps > 0 {
		text += fmt.Sprintf("; HELD BY TWO %d times", r.Overlaps)
	}
	if len(r.Failures) > 0 {
		text += fmt.Sprintf("; %d failures, the first: %s", len(r.Failures), r.Failures[0])
	}
	return text
}

func (r Round) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, longest %v; %s", round(r.P50()), round(r.P99()),
		round(measure.Percentile(1, r.Handoffs)), r.Details())
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
