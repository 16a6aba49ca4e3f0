package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.App{Commands: []cli.Command{Command}}) }

type startFunc func(n int, args ...string) (*redistest.Fleet, error)

func startEmbedded(n int, _ ...string) (*redistest.Fleet, error) { return standin.Start(n) }

func TestDemo(t *testing.T) {
	t.Parallel()
	const shown = "All 14 claims held"
	kinds := []struct {
		name  string
		start startFunc
	}{{"processes", redistest.StartReal}, {"embedded stand-ins", startEmbedded}}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			type result struct {
				code      int
				out, errs child.Printed
				svg       string
				took      time.Duration
			}
			r := clitest.WhileStalled(t, timeout/4, func() (*result, bool) { // masters that stand still look dead
				var r result
				began := time.Now()
				r.svg = filepath.Join(t.TempDir(), "demo.svg")
				r.code = demonstrate(context.Background(), kind.start, r.svg, &r.out, &r.errs)
				r.took = time.Since(began)
				return &r, r.code == cli.ExitOK && r.took <= 40*time.Second && strings.Contains(r.out.String(), shown)
			})
			if strings.Contains(r.errs.String(), redistest.ErrNoServer.Error()) {
				t.Skip(r.errs.String())
			}
			testkit.Check(t, r.code == cli.ExitOK && r.errs.String() == "" && !strings.Contains(r.out.String(), "FALSE"),
				"exit code %d:\n%s\n%s", r.code, &r.out, &r.errs)
			testkit.Check(t, r.took <= 40*time.Second, "it took %v", r.took)
			clitest.Contains(t, r.out.String(), kind.name,
				"ok     worker A asks for the lock on invoice:42 and is refused: quorumlock: lock \"invoice:42\": not acquired: nodes in quarantine",
				"operator.Admit",
				"ok     6 turns",
				"ok     every token is higher than the one before",
				"ok     3s later, more than a lease, worker A still holds",
				"4 masters of 5 go on renewing",
				"3 masters of 5 go on renewing",
				"the context of the lock has ended",
				"ok     that was in time",
				"m3  connect: down",
				"ok     the reason names the masters that failed, and no other",
				"quarantine left: m1 ",
				"ok     worker B holds invoice:42",
				"is higher than worker A's",
				"One lock over five masters\nNever two holders of the lock\n",
				"x dead xxx", "~~ in quarantine", "▾restart", "▾lost", " #7 ███", "worker B", "▒▒ part of the time",
				shown)
			testkit.Check(t, !strings.Contains(r.out.String(), "\x1b"), "there are colours, and no terminal")
			clitest.Contains(t, testkit.Read(t, r.svg),
				"<svg ", "Never two holders of the lock", ">worker B</text>", "> #7 </text>", "</svg>\n")
		})
	}
}

// TestDemoInterrupted ends the context at several points of the story.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"One lock", "m5 is", "operator.Admit", "holds it, token", "worker B asks", "m2 is killed"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			svg := filepath.Join(t.TempDir(), "demo.svg")
			testkit.Must(t, os.WriteFile(svg, []byte("an older picture"), 0o600))
			type played struct {
				out, errs *child.Printed
				code      int
				cleanup   time.Duration
			}
			p := clitest.WhileStalled(t, timeout/4, func() (played, bool) { // the demo gives up on masters that stand still
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var cancelled time.Time
				p := played{errs: new(child.Printed), out: &child.Printed{Sees: clitest.OnceSeen(at, func() error {
					cancelled = time.Now()
					cancel()
					return nil
				})}}
				p.code = clitest.Run(ctx, []string{"demo", "-svg", svg}, p.out, p.errs)
				p.cleanup = time.Since(cancelled)
				return p, p.code == cli.ExitInterrupted && p.cleanup <= 5*time.Second
			})
			testkit.Check(t, p.code == cli.ExitInterrupted,
				"exit code %d, want %d:\n%s\n%s", p.code, cli.ExitInterrupted, p.out, p.errs)
			testkit.Check(t, p.cleanup <= 5*time.Second, "it took %v to clean up", p.cleanup)
			testkit.Check(t, !strings.Contains(p.out.String(), "FALSE"), "it claims what it could not see:\n%s", p.out)
			clitest.Contains(t, p.errs.String(), "interrupted")
			testkit.Equal(t, testkit.Read(t, svg), "an older picture", "the older picture")
		})
	}
}

// A machine that stands still until the quarantine is over cannot show it.
func TestDemoAfterTheQuarantine(t *testing.T) {
	t.Parallel()
	const shown = "the quarantine was over, so it cannot be shown: worker A has the lock\n"
	text := clitest.WhileStalled(t, timeout/4, func() (string, bool) { // a call that stands still for a lease has no lock
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var fleet *redistest.Fleet
		start := func(n int, args ...string) (_ *redistest.Fleet, err error) {
			fleet, err = startEmbedded(n, args...)
			return fleet, err
		}
		stall := clitest.OnceSeen("so it grants nothing", func() error {
			// A quarantine begins when a client marks the master. The demo's workers do so in the background, and may give
			// up on a machine that stands still; one more asks until all are marked.
			other, err := (&demo{fleet: fleet}).newWorker("other")
			defer other.close()
			if err != nil {
				return err
			}
			for _, m := range fleet.Masters {
				testkit.Eventually(t, "marked", func() bool {
					if lock, err := other.locker.TryLock(ctx, "other"); err == nil {
						_ = lock.Unlock(ctx) // its lease may be over
					}
					return testkit.Do(t, m, "EXISTS", scripts.MarkerKey) == int64(1)
				})
			}
			<-time.After(lease + timeout/4)
			return nil
		})
		stop := clitest.OnceSeen("operator.Admit", func() error { cancel(); return nil })
		out := &child.Printed{Sees: func(text string) error { return errors.Join(stall(text), stop(text)) }}
		testkit.Equal(t, demonstrate(ctx, start, "", out, &child.Printed{}), cli.ExitInterrupted, "exit code")
		testkit.Check(t, !strings.Contains(out.String(), "FALSE"), "it claims what it could not see:\n%s", out)
		return out.String(), strings.Contains(out.String(), shown)
	})
	clitest.Contains(t, text, shown)
}

// TestDemoFindsFalseClaims kills a master without the story knowing.
func TestDemoFindsFalseClaims(t *testing.T) {
	t.Parallel()
	const claim = "  - 3s later, more than a lease, worker A still holds"
	summary := clitest.WhileStalled(t, timeout/4, func() (string, bool) { // masters that stand still look dead
		var fleet *redistest.Fleet
		start := func(n int, args ...string) (_ *redistest.Fleet, err error) {
			fleet, err = startEmbedded(n, args...)
			return fleet, err
		}
		out := &child.Printed{Sees: clitest.OnceSeen("m1 is killed", func() error { return fleet.Masters[3].Kill() })}
		var errs child.Printed
		code := demonstrate(context.Background(), start, "", out, &errs)
		testkit.Check(t, code == cli.ExitFailed, "exit code %d:\n%s\n%s", code, out, &errs)
		_, summary, found := strings.Cut(out.String(), "claims did not hold:\n")
		if !found { // the demo gave up
			return out.String() + errs.String(), false
		}
		return summary, strings.Contains(summary, claim)
	})
	clitest.Contains(t, summary, claim)
}

// A worker's panic, the story's own, and an output that fails, end the demo. TestMain finds any process or file that they leave
// behind.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	for at, test := range map[string]struct {
		fail func() error
		says []string
	}{
		"worker B asks":    {func() error { return errors.New("the pipe is closed") }, []string{"the pipe is closed"}},
		"holds it, token ": {func() error { panic("on purpose") }, []string{"panic: on purpose", "contend.go"}},
		"m1 is killed":     {func() error { panic("on purpose") }, []string{"came through: on purpose"}},
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			errs := clitest.WhileStalled(t, timeout/4, func() (said string, ok bool) { // the demo gives up on masters that stand still
				defer func() {
					if x := recover(); x != nil {
						said, ok = fmt.Sprint("came through: ", x), true
					}
				}()
				out, errs := &child.Printed{Sees: clitest.OnceSeen(at, test.fail)}, &child.Printed{}
				code := clitest.Run(context.Background(), []string{"demo"}, out, errs)
				testkit.Check(t, code == cli.ExitFailed, "exit code %d:\n%s\n%s", code, out, errs)
				return errs.String(), strings.Contains(errs.String(), test.says[0])
			})
			clitest.Contains(t, errs, test.says...)
		})
	}
}

func TestDemoWithoutMasters(t *testing.T) {
	t.Parallel()
	start := func(int, ...string) (*redistest.Fleet, error) { return nil, errors.New("no room") }
	var out, errs child.Printed
	testkit.Equal(t, demonstrate(context.Background(), start, "", &out, &errs), cli.ExitFailed, "exit code")
	clitest.Contains(t, errs.String(), "no room")
}

// TestSignals sends signals to the command in a process of its own.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := clitest.WhileStalled(t, timeout/4, func() (*child.Printed, bool) { // the demo gives up on masters that stand still
				cmd := exec.Command(os.Args[0], "demo")
				cmd.Env = append(os.Environ(), clitest.Variable+"=1", "TMPDIR="+dir)
				signalled := false
				out := &child.Printed{Sees: clitest.OnceSeen("m1 is killed", func() error { signalled = true; return cmd.Process.Signal(signal) })}
				cmd.Stdout, cmd.Stderr = out, out
				var ended *exec.ExitError
				if err := cmd.Run(); signalled && (!errors.As(err, &ended) || ended.ExitCode() != cli.ExitInterrupted) {
					t.Errorf("ended with %v, want exit status %d:\n%s", err, cli.ExitInterrupted, out)
				}
				return out, signalled
			})
			clitest.Contains(t, out.String(), "m1 is killed", "interrupted")
			testkit.Is(t, clitest.Empty(dir), nil, "left behind")
		})
	}
}

func TestMastersWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.BinaryVariable, "")
	fleet, err := startMasters(2, "--appendonly", "yes")
	testkit.Must(t, err)
	defer fleet.Stop()
	testkit.Equal(t, fleet.Kind, "embedded stand-ins", "the masters")
	testkit.Is(t, fleet.Masters[0].Freeze(), redistest.ErrEmbedded, "freezing one")
	t.Setenv(redistest.BinaryVariable, filepath.Join(t.TempDir(), "none"))
	_, err = startMasters(1)
	testkit.Check(t, err != nil, "a server that is named and not there is replaced")
}
