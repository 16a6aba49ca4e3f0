package quorumtest_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// explored is the environment variable with the name of a scenario.
const explored = "QUORUMTEST_EXPLORED"

// scenario is what three tills do under Explore.
type scenario struct {
	ignoresTokens bool
	ask           func(masters *quorumtest.Masters, locker *quorum.Locker)
	seeds         int
	isLate        bool // the work begins when the faults are over
}

var scenarios = map[string]scenario{
	"right": {false, asksInWork, 20, false},
	// Only a process that stands still, or is cut off, for longer than its lease pays what another has paid.
	"token ignored": {true, asksInWork, 200, false},
	// No process stands still: work is a sleep that ignores the context, from which faults of the network take the lock.
	"context ignored": {true, func(*quorumtest.Masters, *quorum.Locker) { time.Sleep(time.Minute) }, 200, false},
	// The same bug as "token ignored", which no fault shows while no process stands still.
	"no work":   {true, func(*quorumtest.Masters, *quorum.Locker) { time.Sleep(time.Second) }, 3, false},
	"late work": {false, asksInWork, 20, true},
	"one seed":  {false, asksInWork, 1, false},
}

func asksInWork(masters *quorumtest.Masters, locker *quorum.Locker) {
	masters.Work(locker, time.Second)
}

// TestExplored is ExampleExplore's test, of a scenario in a process of its own.
func TestExplored(t *testing.T) {
	s, named := scenarios[os.Getenv(explored)]
	if !named {
		s = scenarios["right"]
	}
	quorumtest.Explore(t, s.seeds, func(t *testing.T, masters *quorumtest.Masters) {
		if s.isLate {
			time.Sleep(time.Hour)
		}
		bank := &bank{ignoresTokens: s.ignoresTokens}
		var tills sync.WaitGroup
		for range 3 {
			locker := masters.Locker()
			one := &till{locker, bank, func() { s.ask(masters, locker) }}
			tills.Go(func() {
				for one.charge(t.Context()) != nil {
					time.Sleep(time.Second)
				}
			})
		}
		tills.Wait()
		t.Logf("token %d, at %v", bank.token, time.Now())
		testkit.Check(t, bank.payments == 1, "paid %d times", bank.payments)
	})
}

// explore runs TestExplored, or a seed of it, and returns its output.
func explore(t *testing.T, scenario, run string) (output string, failed bool) {
	t.Helper()
	program := testkit.Got(os.Executable())(t)
	ctx := testkit.Within(t, 5*time.Minute)
	child := exec.CommandContext(ctx, program, "-test.v", "-test.run", run)
	child.Env = append(os.Environ(), explored+"="+scenario)
	text, err := child.CombinedOutput()
	testkit.Require(t, err == nil || child.ProcessState.Exited(), "%v\n%s", err, text)
	return string(text), err != nil
}

var replayLine = regexp.MustCompile(`to replay: go test -v -run '(\S+)'`)

// A test that passes because no process ever stood still fails, unless only some seeds were to run.
func TestExploreWithoutAPause(t *testing.T) {
	const says = "quorumtest: no process ever stood still"
	for _, scenario := range []string{"no work", "late work"} {
		output, failed := explore(t, scenario, "^TestExplored$")
		testkit.Check(t, failed && strings.Contains(output, says), "%s passes, or fails for another reason:\n%s", scenario, output)
	}
	for scenario, run := range map[string]string{"no work": "^TestExplored$/^seed=3$", "one seed": "^TestExplored$"} {
		output, failed := explore(t, scenario, run)
		testkit.Check(t, !failed, "%s, %s fails:\n%s", scenario, run, output)
	}
}

// Explore finds the bugs that a test without faults does not, and the line that it prints replays the seed.
func TestExploreFinds(t *testing.T) {
	find := func(scenario string) (line string) {
		output, failed := explore(t, scenario, "^TestExplored$")
		found := replayLine.FindStringSubmatch(output)
		testkit.Require(t, failed && found != nil && paidTwice.MatchString(output), "%s: not found:\n%s", scenario, output)
		return found[1]
	}
	find("context ignored")
	line := find("token ignored")
	first, _ := explore(t, "token ignored", line)
	second, _ := explore(t, "token ignored", line)
	testkit.Check(t, paidTwice.MatchString(first) && trace(first) == trace(second),
		"%s does not replay:\n%s\n%s", line, trace(first), trace(second))
}

var paidTwice = regexp.MustCompile(`paid [23] times\n`)

var varying = regexp.MustCompile(`(?m)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\([0-9.]+s\)$`)

// trace returns the lines of an output, without what is random for the library's sake and the real time. Lines of one
// instant come in any order.
func trace(output string) string {
	lines := slices.Collect(strings.Lines(varying.ReplaceAllString(output, "")))
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// The end of a fault starts no master that the test has stopped.
func TestExploreLeavesStoppedMastersAlone(t *testing.T) {
	quorumtest.Explore(t, 8, func(t *testing.T, masters *quorumtest.Masters) {
		locker := masters.Locker()
		masters.Stop(0)
		masters.Stop(1)
		for range 60 {
			_, err := locker.TryLock(t.Context(), "a")
			testkit.Require(t, err != nil, "one master of three has granted a lock")
			masters.Work(locker, 5*time.Second)
		}
	})
}

// A process of Run ends with its function, or with the test, and its locker is closed.
func TestRun(t *testing.T) {
	var locker *quorum.Locker
	ended := false
	t.Run("a test", func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		wait := masters.Run(func(ctx context.Context, l *quorum.Locker) {
			err := l.Do(ctx, func(context.Context, *quorum.Lock) error { return nil }, "a")
			testkit.Check(t, err == nil, "%v", err)
			locker = l
		})
		wait()
		_, err := locker.TryLock(t.Context(), "a")
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "closed"), "the locker of a process that has ended: %v", err)
		masters.Run(func(ctx context.Context, l *quorum.Locker) { <-ctx.Done(); ended = true })
	})
	testkit.Check(t, ended, "a process goes on after its test")
}

// Under Explore processes are killed, and end in good order, and whoever takes their place goes on: each invoice is paid
// once, and no seed waits for a process that is gone.
func TestExploreReplacesProcesses(t *testing.T) {
	var lives, killed, ended atomic.Int64
	quorumtest.Explore(t, 20, func(t *testing.T, masters *quorumtest.Masters) {
		bank := &bank{}
		var waits []func()
		for range 3 {
			waits = append(waits, masters.Run(func(ctx context.Context, locker *quorum.Locker) {
				lives.Add(1)
				one := &till{locker, bank, func() { masters.Work(locker, time.Second) }}
				for one.charge(ctx) != nil && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				time.Sleep(5 * time.Minute)
				if ctx.Err() == nil {
					return
				}
				_, err := locker.TryLock(context.Background(), "whether it is cut off")
				if err == nil {
					ended.Add(1)
				} else {
					killed.Add(1)
				}
			}))
		}
		for _, wait := range waits {
			wait()
		}
		testkit.Check(t, bank.payments == 1, "paid %d times", bank.payments)
	})
	testkit.Check(t, lives.Load() > 3*20 && killed.Load() > 0 && ended.Load() > 0, "%d processes, %d killed, %d ended in good order",
		lives.Load(), killed.Load(), ended.Load())
}
