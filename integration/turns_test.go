package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const turnsFor = 3 * time.Second

// turnsPause names, in a contender's environment, how long it holds the lock and how long it then
// stays away.
const turnsPause = "QUORUMLOCK_TEST_PAUSE"

// contenderProcess takes the lock again and again. It prints when it called Lock, when it held the
// lock, and when it called Unlock, by the clock that all processes of the machine share.
func contenderProcess() int {
	var hold, away time.Duration
	if _, err := fmt.Sscanf(os.Getenv(turnsPause), "%d %d", &hold, &away); err != nil {
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
	now := clock.System().Now
	for {
		called := now()
		held, err := locker.Lock(ctx, "k")
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
		fmt.Println("turn", called, got, left)
		time.Sleep(away)
	}
}

type aTurn struct{ process, called, got, left int64 }

// takeTurns lets processes contend for one lock, and returns all their turns in order, and how many
// each process had.
func takeTurns(t *testing.T, processes int, hold, away time.Duration) (all []aTurn, shares []int) {
	t.Helper()
	f := fleet(t, 3)
	turns := make(chan []aTurn, processes)
	for process := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childRole+"=contender", holderURLs+"="+strings.Join(f.URLs(), " "),
			fmt.Sprintf("%s=%d %d", turnsPause, hold, away))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		go func() {
			var mine []aTurn
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				turn := aTurn{process: int64(process)}
				if _, err := fmt.Sscanf(lines.Text(), "turn %d %d %d", &turn.called, &turn.got, &turn.left); err != nil {
					t.Errorf("process %d: %s", process, lines.Text())
				}
				mine = append(mine, turn)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", process, err)
			}
			turns <- mine
		}()
	}
	for range processes {
		mine := <-turns
		shares = append(shares, len(mine))
		all = append(all, mine...)
	}
	slices.SortFunc(all, func(a, b aTurn) int { return int(a.got - b.got) })
	for i, turn := range all[1:] {
		if before := all[i]; turn.got < before.left {
			t.Fatalf("two holders: %+v and %+v", before, turn)
		}
	}
	return all, shares
}

// Eight processes contend for one lock, which passes fast and evenly. The bounds leave room for a
// busy machine; bench measures handoffs.
func TestProcessesTakeTurns(t *testing.T) {
	const processes = 8
	all, shares := takeTurns(t, processes, time.Millisecond, 5*time.Millisecond)
	var handoffs, waits []time.Duration
	for i, turn := range all[1:] {
		before := all[i]
		if turn.process != before.process {
			handoffs = append(handoffs, time.Duration(turn.got-max(before.left, turn.called)))
		}
		waits = append(waits, time.Duration(turn.got-turn.called))
	}
	slices.Sort(handoffs)
	slices.Sort(waits)
	least, most := slices.Min(shares), slices.Max(shares)
	fair := turnsFor * processes / time.Duration(len(all))
	p50, p99, longest := handoffs[len(handoffs)/2], handoffs[len(handoffs)*99/100], waits[len(waits)-1]
	t.Logf("%d turns, handoff p50 %v, p99 %v; shares %d to %d; longest wait %v, fair %v",
		len(all), p50, p99, least, most, longest, fair)
	if p50 > 10*time.Millisecond || p99 > 100*time.Millisecond {
		t.Errorf("handoff p50 %v, p99 %v", p50, p99)
	}
	if most > 3*least {
		t.Errorf("shares from %d to %d", least, most)
	}
	if longest > 20*fair {
		t.Errorf("a process waited %v, where %v is fair", longest, fair)
	}
}

// A process that asks again at once lets those that wait go first. The bounds leave room for a
// waiter that a busy machine is slow to wake.
func TestProcessesThatAskAgainAtOnceTakeTurns(t *testing.T) {
	all, shares := takeTurns(t, 3, 20*time.Millisecond, 0)
	again, streak, longest := 0, 1, 1
	for i, turn := range all[1:] {
		if turn.process != all[i].process {
			streak = 1
			continue
		}
		again++
		streak++
		longest = max(longest, streak)
	}
	least, most := slices.Min(shares), slices.Max(shares)
	t.Logf("%d turns, %d of them again, at most %d in a row; shares %d to %d", len(all), again, longest, least, most)
	if longest > 4 || again > len(all)/10 {
		t.Errorf("%d of %d turns go to the process before, up to %d in a row", again, len(all), longest)
	}
	if 4*most > 5*least {
		t.Errorf("shares from %d to %d", least, most)
	}
}
