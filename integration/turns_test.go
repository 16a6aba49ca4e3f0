package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const turnsFor = 3 * time.Second

// turnsPause names, in a contender's environment, how long it holds the lock, how long it then stays
// away, and the number of slots; 0 for a lock.
const turnsPause = "QUORUMLOCK_TEST_PAUSE"

// contenderProcess takes the lock, or a slot, again and again. It prints when it called Lock, when it
// held the lock, when it called Unlock, by the clock that all processes of the machine share, the
// slot; −1 for a lock. It also prints from when to when it was kept from running.
func contenderProcess() int {
	var hold, away time.Duration
	var slots int
	if _, err := fmt.Sscanf(os.Getenv(turnsPause), "%d %d %d", &hold, &away, &slots); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	locker, err := redlock.Open(strings.Split(os.Getenv(holderURLs), " "),
		quorum.WithNodeOptions(node.WithTimeout(2*time.Second), node.WithoutQuarantine()))
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	defer locker.Close()
	ctx, cancel := context.WithTimeout(context.Background(), turnsFor)
	defer cancel()
	now, take := clock.System().Now, func() (*quorum.Lock, error) { return locker.Lock(ctx, "k") }
	if slots > 0 {
		take = func() (*quorum.Lock, error) { return locker.Semaphore("k", slots).Acquire(ctx) }
	}
	go func() { // as long as the process lives
		const every = 2 * time.Millisecond
		for {
			due := now() + clock.Instant(every)
			time.Sleep(every)
			if ran := now(); ran.Sub(due) > time.Millisecond {
				fmt.Println("kept", due, ran)
			}
		}
	}()
	for {
		called := now()
		held, err := take()
		if err != nil {
			return 0
		}
		got := now()
		time.Sleep(hold)
		left := now()
		if err := held.Unlock(context.Background()); err != nil {
			fmt.Println("failed:", err)
			return 1
		}
		fmt.Println("turn", called, got, left, held.Slot())
		time.Sleep(away)
	}
}

type aTurn struct{ process, called, got, left, slot int64 }

// hop is the control of a handoff: a bare command to a master, from the instant at which it was due.
type hop struct{ due, done int64 }

func (h hop) took() time.Duration { return time.Duration(h.done - h.due) }

// hops sends a command to the master every few milliseconds, until the context ends.
func hops(t *testing.T, ctx context.Context, m *redistest.Master) (all []hop) {
	now := clock.System().Now
	every := time.NewTicker(hopEvery)
	defer every.Stop()
	for {
		due := int64(now()) + int64(hopEvery)
		select {
		case <-every.C:
			due = min(due, int64(now())) // a tick after a late one comes early
			do(t, m, "PING")
			all = append(all, hop{due, int64(now())})
		case <-ctx.Done():
			return all
		}
	}
}

const hopEvery = 5 * time.Millisecond

// takeTurns lets processes contend for one lock, or for so many slots, and returns in order their turns from when the last of
// them had begun until the first of them was to end, how many each process had, how long
// each was kept from running, and the hops meanwhile.
func takeTurns(t *testing.T, f *redistest.Fleet, slots, processes int, hold, away time.Duration) (
	all []aTurn, shares []int, kept [][]hop, control []hop,
) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	measured := make(chan []hop, 1)
	go func() { measured <- hops(t, ctx, f.Masters[0]) }()
	turns := make(chan []aTurn, processes)
	kept = make([][]hop, processes)
	for process := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childRole+"=contender", holderURLs+"="+strings.Join(f.URLs(), " "),
			fmt.Sprintf("%s=%d %d %d", turnsPause, hold, away, slots))
		printed := &child.Output{}
		cmd.Stderr = printed
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		go func() {
			var mine []aTurn
			lines := bufio.NewScanner(printed.Tee(out))
			err := child.Await(cmd, printed, turnsFor+3*patience, fmt.Sprintf("the turns of process %d", process), func() error {
				for lines.Scan() {
					var h hop
					if _, err := fmt.Sscanf(lines.Text(), "kept %d %d", &h.due, &h.done); err == nil {
						kept[process] = append(kept[process], h)
						continue
					}
					turn := aTurn{process: int64(process)}
					if _, err := fmt.Sscanf(lines.Text(), "turn %d %d %d %d", &turn.called, &turn.got, &turn.left, &turn.slot); err != nil {
						t.Errorf("process %d: %s", process, lines.Text())
					}
					mine = append(mine, turn)
				}
				return cmd.Wait()
			})
			if err != nil {
				t.Error(err)
			}
			turns <- mine
		}()
	}
	from, to := int64(0), int64(math.MaxInt64)
	for range processes {
		mine := <-turns
		if len(mine) == 0 {
			t.Fatal("a process had no turn")
		}
		from, to = max(from, mine[0].called), min(to, mine[0].called+int64(turnsFor))
		all = append(all, mine...)
	}
	cancel()
	control = <-measured
	slices.SortFunc(all, func(a, b aTurn) int { return int(a.got - b.got) })
	last := map[int64]aTurn{} // by slot
	for _, turn := range all {
		if before, ok := last[turn.slot]; ok && turn.got < before.left {
			t.Fatalf("two holders: %+v and %+v", before, turn)
		}
		last[turn.slot] = turn
	}
	all = slices.DeleteFunc(all, func(turn aTurn) bool { return turn.called < from || turn.left > to })
	shares = make([]int, processes)
	for _, turn := range all {
		shares[turn.process]++
	}
	if len(all) < 2*processes {
		t.Fatalf("only %d turns while all of %d processes contended", len(all), processes)
	}
	return all, shares, kept, control
}

// lateness returns how late the machine was between two instants.
func lateness(control []hop, from, to int64) (sum time.Duration) {
	for _, h := range control {
		if h.took() > 2*time.Millisecond && h.done > from && h.due < to {
			sum += h.took()
		}
	}
	return sum
}

// Eight processes contend for one lock, which passes fast and evenly: a handoff is a few hops. bench
// measures handoffs.
func TestProcessesTakeTurns(t *testing.T) {
	const processes = 8
	all, shares, kept, control := takeTurns(t, fleet(t, 3), 0, processes, time.Millisecond, 5*time.Millisecond)
	slices.SortFunc(control, func(a, b hop) int { return int(a.took() - b.took()) })
	hop50, hop99 := control[len(control)/2].took(), control[len(control)*99/100].took()
	var handoffs, waits []time.Duration
	for i, turn := range all[1:] {
		before := all[i]
		if turn.process != before.process {
			handoffs = append(handoffs, time.Duration(turn.got-max(before.left, turn.called)))
		}
		waits = append(waits, time.Duration(turn.got-turn.called)-4*lateness(control, turn.called, turn.got))
	}
	slices.Sort(handoffs)
	slices.Sort(waits)
	paces := pacesOf(all, shares, kept)
	slowest, fastest := slices.Min(paces), slices.Max(paces)
	fair := time.Duration(all[len(all)-1].left-all[0].called) * processes / time.Duration(len(all))
	p50, p99, longest := handoffs[len(handoffs)/2], handoffs[len(handoffs)*99/100], waits[len(waits)-1]
	t.Logf("%d turns, handoff p50 %v, p99 %v, hop p50 %v, p99 %v; shares %v; %.1f to %.1f turns a second awake; longest wait %v, fair %v",
		len(all), p50, p99, hop50, hop99, shares, slowest, fastest, longest, fair)
	if p50 > 10*time.Millisecond+4*hop50 || p99 > 100*time.Millisecond+4*hop99 {
		t.Errorf("handoff p50 %v, p99 %v, where a hop has p50 %v, p99 %v", p50, p99, hop50, hop99)
	}
	if fastest > 3*slowest {
		t.Errorf("a process had %.1f turns for each second in which it could run, another %.1f", slowest, fastest)
	}
	if longest > 20*fair {
		t.Errorf("a process waited %v, where %v is fair", longest, fair)
	}
}

// pacesOf returns how many turns each process had for each second in which it was not kept from running.
func pacesOf(all []aTurn, shares []int, kept [][]hop) (paces []float64) {
	from, to := all[0].called, all[len(all)-1].left
	for process, share := range shares {
		ran := to - from
		for _, h := range kept[process] {
			ran -= max(0, min(h.done, to)-max(h.due, from))
		}
		paces = append(paces, float64(share)/time.Duration(ran).Seconds())
	}
	return paces
}

// stoodStill reports whether the machine was late between two turns, or shortly before or after: a
// waiter may have been, too.
func stoodStill(control []hop, before, next aTurn) bool {
	const near = int64(20 * time.Millisecond)
	return slices.ContainsFunc(control, func(h hop) bool {
		return h.took() > 2*time.Millisecond && h.done > before.left-near && h.due < next.got+near
	})
}

// A process that asks again at once lets those that wait go first. A turn does not count if the
// machine was slow to wake a waiter. The bounds leave room for stalls that no hop has met.
func TestProcessesThatAskAgainAtOnceTakeTurns(t *testing.T) {
	all, _, _, control := takeTurns(t, fleet(t, 3), 0, 3, 20*time.Millisecond, 0)
	had := map[int64]int{} // by process
	for _, turn := range all {
		had[turn.process]++
	}
	again, streak, longest := 0, 1, 1
	for i, turn := range all[1:] {
		if turn.process != all[i].process {
			streak = 1
			continue
		}
		if stoodStill(control, all[i], turn) {
			had[turn.process]--
			continue
		}
		again++
		streak++
		longest = max(longest, streak)
	}
	shares := slices.Collect(maps.Values(had))
	least, most := slices.Min(shares), slices.Max(shares)
	t.Logf("%d turns, %d of them again, at most %d in a row; shares %d to %d", len(all), again, longest, least, most)
	if longest > 4 || again > len(all)/10 {
		t.Errorf("%d of %d turns go to the process before, up to %d in a row", again, len(all), longest)
	}
	if 4*most > 5*least {
		t.Errorf("shares from %d to %d", least, most)
	}
}
