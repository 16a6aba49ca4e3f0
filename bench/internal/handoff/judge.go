package handoff

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

// Round is what came of one run of a plan.
type Round struct {
	// Handoffs are the times for which a lock that somebody in another process was waiting for lay idle, until somebody in another
	// process had it: a waiter, or one who came by.
	Handoffs []time.Duration
	CameBy   int             // of the handoffs, to one who did not wait when the lock was released
	Regained int             // times that the process which released such a lock had it next
	Waits    []time.Duration // of all who acquired a lock, since they had asked
	Attempts int
	Sent     int // commands, by all clients to all masters
	Overlaps int // the next one had it before the last one let go
	Shares   []int
	Failures []string
}

// inScripts are the commands that each peer's scripts run, and that it does not send by itself.
var inScripts = map[string][]string{
	"quorumlock": {"exists", "hlen", "hexists", "pttl", "get", "hmget", "time", "hset", "pexpire", "set", "hdel", "publish", "del", "hgetall", "pubsub|numsub"},
	"redsync":    {"get", "del"},
}

// turn is a hold with the process that had it.
type turn struct {
	process int
	hold
}

func judge(p Plan, peer string, accounts []account, commands measure.Commands) Round {
	r := Round{Shares: make([]int, p.Contenders), Sent: commands.Sent(inScripts[peer]...)}
	locks := make([][]turn, p.Locks)
	for _, a := range accounts {
		for _, h := range a.Holds {
			lock := h.Contender % p.Locks
			locks[lock] = append(locks[lock], turn{a.Process, h})
			if h.Acquired > 0 {
				r.Shares[h.Contender]++
				r.Waits = append(r.Waits, h.Acquired.sub(h.Asked))
			}
		}
		r.Attempts += a.Attempts
		r.Failures = append(r.Failures, a.Failures...)
	}
	for _, turns := range locks {
		r.judgeLock(turns)
	}
	return r
}

// judgeLock looks at each release of one lock.
func (r *Round) judgeLock(turns []turn) {
	held := slices.DeleteFunc(slices.Clone(turns), func(t turn) bool { return t.Acquired == 0 })
	slices.SortFunc(held, func(a, b turn) int { return cmp.Compare(a.Acquired, b.Acquired) })
	for i := 1; i < len(held); i++ {
		last, next := held[i-1], held[i]
		if next.Acquired < last.Released {
			r.Overlaps++
			continue
		}
		wanted := slices.ContainsFunc(turns, func(t turn) bool {
			return t.process != last.process && t.Asked <= last.Released && (t.Acquired == 0 || t.Acquired > last.Released)
		})
		switch {
		case !wanted:
		case next.process == last.process:
			r.Regained++
		default:
			r.Handoffs = append(r.Handoffs, next.Acquired.sub(last.Released))
			if next.Asked > last.Released {
				r.CameBy++
			}
		}
	}
}

// Sum joins the rounds of one plan.
func Sum(rounds []Round) Round {
	var sum Round
	for _, r := range rounds {
		sum.Handoffs = append(sum.Handoffs, r.Handoffs...)
		sum.CameBy += r.CameBy
		sum.Regained += r.Regained
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

// P50 and P99 are of the handoffs.
func (r Round) P50() time.Duration { return measure.Median(r.Handoffs) }
func (r Round) P99() time.Duration { return measure.Percentile(0.99, r.Handoffs) }

// Luck is what the luckiest and the unluckiest contender got of a fair share.
func (r Round) Luck() (most, least float64) {
	fair := float64(max(len(r.Waits), 1)) / float64(len(r.Shares))
	return float64(slices.Max(r.Shares)) / fair, float64(slices.Min(r.Shares)) / fair
}

// PerAcquisition is how often a lock was asked for, and how many commands went to all masters, until somebody had it and had
// released it.
func (r Round) PerAcquisition() (attempts, commands float64) {
	acquired := float64(max(len(r.Waits), 1))
	return float64(r.Attempts) / acquired, float64(r.Sent) / acquired
}

// Details says in a line all that is not in the two percentiles.
func (r Round) Details() string {
	most, least := r.Luck()
	attempts, commands := r.PerAcquisition()
	text := fmt.Sprintf("%d handoffs, %d of them to one who came by, %d times regained; waits p50 %v, p99 %v, longest %v; "+
		"for each of %d acquisitions %.1f attempts and %.1f commands to all masters; luckiest %.2f and unluckiest %.2f of a fair share",
		len(r.Handoffs), r.CameBy, r.Regained, round(measure.Median(r.Waits)), round(measure.Percentile(0.99, r.Waits)), round(measure.Percentile(1, r.Waits)),
		len(r.Waits), attempts, commands, most, least)
	if r.Overlaps > 0 {
		text += fmt.Sprintf("; HELD BY TWO %d times", r.Overlaps)
	}
	if len(r.Failures) > 0 {
		text += fmt.Sprintf("; %d failures, the first: %s", len(r.Failures), r.Failures[0])
	}
	return text
}

func (r Round) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, longest %v; %s", round(r.P50()), round(r.P99()), round(measure.Percentile(1, r.Handoffs)), r.Details())
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
