package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.App{Commands: []cli.Command{Command}}) }

// show is one performance of the demo.
type show struct {
	fleet       *redistest.Fleet
	stop        func() // ends its context
	began, over time.Time
	code        int
	out, errs   child.Printed
}

type startFunc func(n int, args ...string) (*redistest.Fleet, error)

func startEmbedded(n int, _ ...string) (*redistest.Fleet, error) { return standin.Start(n) }

// perform runs the demo, and calls what on has for a text when that is printed first. What fails while the machine stands
// still is repeated: masters that stand still look dead.
func perform(t *testing.T, start startFunc, svg string, on map[string]func(*show) error, isFine func(*show) bool) *show {
	t.Helper()
	return clitest.WhileStalled(t, timeout/4, func() (*show, bool) {
		s, seen := &show{}, map[string]bool{}
		s.out.Sees = func(printed string) (err error) { // the narrator prints one text at a time
			for text, do := range on {
				if !seen[text] && strings.Contains(printed, text) {
					seen[text] = true
					err = errors.Join(err, do(s))
				}
			}
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s.stop, s.began = stop, time.Now()
		func() {
			defer func() {
				if x := recover(); x != nil {
					fmt.Fprint(&s.errs, "came through: ", x)
				}
			}()
			s.code = demonstrate(ctx, func(n int, args ...string) (_ *redistest.Fleet, err error) {
				s.fleet, err = start(n, args...)
				return s.fleet, err
			}, svg, &s.out, &s.errs)
		}()
		s.over = time.Now()
		return s, isFine(s)
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	const shown = "All 14 claims held"
	for kind, start := range map[string]startFunc{"processes": redistest.StartReal, "embedded stand-ins": startEmbedded} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			svg := filepath.Join(t.TempDir(), "demo.svg")
			isInTime := func(s *show) bool { return s.over.Sub(s.began) <= 40*time.Second }
			s := perform(t, start, svg, nil, func(s *show) bool {
				return s.code == cli.ExitOK && isInTime(s) && strings.Contains(s.out.String(), shown)
			})
			if strings.Contains(s.errs.String(), redistest.ErrNoServer.Error()) {
				t.Skip(s.errs.String())
			}
			testkit.Check(t, s.code == cli.ExitOK && s.errs.String() == "" && !strings.Contains(s.out.String(), "FALSE"),
				"exit code %d:\n%s\n%s", s.code, &s.out, &s.errs)
			testkit.Check(t, isInTime(s), "it took %v", s.over.Sub(s.began))
			clitest.Contains(t, s.out.String(), kind,
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
			testkit.Check(t, !strings.Contains(s.out.String(), "\x1b"), "there are colours, and no terminal")
			clitest.Contains(t, testkit.Read(t, svg),
				"<svg ", "Never two holders of the lock", ">worker B</text>", "> #7 </text>", "</svg>\n")
		})
	}
}

// The context ends at several points of the story.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"One lock", "m5 is", "operator.Admit", "holds it, token", "worker B asks", "m2 is killed"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			svg := filepath.Join(t.TempDir(), "demo.svg")
			testkit.Must(t, os.WriteFile(svg, []byte("an older picture"), 0o600))
			var stopped time.Time
			stop := func(s *show) error { stopped = time.Now(); s.stop(); return nil }
			s := perform(t, startMasters, svg, map[string]func(*show) error{at: stop}, func(s *show) bool {
				return s.code == cli.ExitInterrupted && s.over.Sub(stopped) <= 5*time.Second
			})
			testkit.Check(t, s.code == cli.ExitInterrupted, "exit code %d, want %d:\n%s\n%s", s.code, cli.ExitInterrupted, &s.out, &s.errs)
			testkit.Check(t, s.over.Sub(stopped) <= 5*time.Second, "it took %v to clean up", s.over.Sub(stopped))
			testkit.Check(t, !strings.Contains(s.out.String(), "FALSE"), "it claims what it could not see:\n%s", &s.out)
			clitest.Contains(t, s.errs.String(), "interrupted")
			testkit.Equal(t, testkit.Read(t, svg), "an older picture", "the older picture")
		})
	}
}

// A machine that stands still until the quarantine is over cannot show it.
func TestDemoAfterTheQuarantine(t *testing.T) {
	t.Parallel()
	const shown = "the quarantine was over, so it cannot be shown: worker A has the lock\n"
	stall := func(s *show) error {
		// A quarantine begins when a client marks the master. The demo's workers do so in the background, and may give
		// up on a machine that stands still; one more asks until all are marked.
		other, err := (&demo{fleet: s.fleet}).newWorker("other")
		defer other.close()
		if err != nil {
			return err
		}
		for _, m := range s.fleet.Masters {
			testkit.Eventually(t, "marked", func() bool {
				if lock, err := other.locker.TryLock(t.Context(), "other"); err == nil {
					_ = lock.Unlock(t.Context()) // its lease may be over
				}
				return testkit.Do(t, m, "EXISTS", scripts.MarkerKey) == int64(1)
			})
		}
		<-time.After(lease + timeout/4)
		return nil
	}
	s := perform(t, startEmbedded, "", map[string]func(*show) error{
		"so it grants nothing": stall,
		"operator.Admit":       func(s *show) error { s.stop(); return nil },
	}, func(s *show) bool { return strings.Contains(s.out.String(), shown) }) // a call that stands still for a lease has no lock
	testkit.Equal(t, s.code, cli.ExitInterrupted, "exit code")
	testkit.Check(t, !strings.Contains(s.out.String(), "FALSE"), "it claims what it could not see:\n%s", &s.out)
	clitest.Contains(t, s.out.String(), shown)
}

// A master is killed without the story knowing.
func TestDemoFindsFalseClaims(t *testing.T) {
	t.Parallel()
	const claim = "  - 3s later, more than a lease, worker A still holds"
	said := func(s *show) string { // of the claims, unless the demo gave up
		_, summary, _ := strings.Cut(s.out.String(), "claims did not hold:\n")
		return summary
	}
	kill := func(s *show) error { return s.fleet.Masters[3].Kill() }
	s := perform(t, startEmbedded, "", map[string]func(*show) error{"m1 is killed": kill}, func(s *show) bool {
		return strings.Contains(said(s), claim)
	})
	testkit.Check(t, s.code == cli.ExitFailed && strings.Contains(said(s), claim), "exit code %d:\n%s\n%s", s.code, &s.out, &s.errs)
}

// A worker's panic, the story's own, and an output that fails, end the demo. TestMain finds any process or file that they leave
// behind.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	for at, test := range map[string]struct {
		fail func(*show) error
		says []string
	}{
		"worker B asks":    {func(*show) error { return errors.New("the pipe is closed") }, []string{"the pipe is closed"}},
		"holds it, token ": {func(*show) error { panic("on purpose") }, []string{"panic: on purpose", "contend.go"}},
		"m1 is killed":     {func(*show) error { panic("on purpose") }, []string{"came through: on purpose"}},
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := perform(t, startMasters, "", map[string]func(*show) error{at: test.fail}, func(s *show) bool {
				return strings.Contains(s.errs.String(), test.says[0])
			})
			testkit.Check(t, s.code == cli.ExitFailed || at == "m1 is killed", "exit code %d:\n%s\n%s", s.code, &s.out, &s.errs)
			clitest.Contains(t, s.errs.String(), test.says...)
		})
	}
}

func TestDemoWithoutMasters(t *testing.T) {
	t.Parallel()
	start := func(int, ...string) (*redistest.Fleet, error) { return nil, errors.New("no room") }
	s := perform(t, start, "", nil, func(*show) bool { return true })
	testkit.Equal(t, s.code, cli.ExitFailed, "exit code")
	clitest.Contains(t, s.errs.String(), "no room")
}

// The command gets signals in a process of its own.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := clitest.WhileStalled(t, timeout/4, func() (*clitest.Process, bool) { // the demo gives up on masters that stand still
				p := clitest.NewProcess(os.Args[0], "demo")
				p.Env = append(p.Env, "TMPDIR="+dir)
				p.Begin(t)
				p.Eventually(t, "a master killed", func() bool {
					return strings.Contains(p.Out.String(), "m1 is killed") || p.HasExited()
				})
				_ = p.Cmd.Process.Signal(signal) // unless it has ended
				p.Eventually(t, "the end", p.HasExited)
				return p, strings.Contains(p.Out.String(), "m1 is killed")
			})
			p.Await(t, cli.ExitInterrupted)
			clitest.Contains(t, p.Out.String(), "m1 is killed")
			clitest.Contains(t, p.Errs.String(), "interrupted")
			testkit.Is(t, clitest.Empty(dir), nil, "left behind")
		})
	}
}

func TestMastersWithoutRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.BinaryVariable, "")
	fleet := testkit.Got(startMasters(2, "--appendonly", "yes"))(t)
	defer fleet.Stop()
	testkit.Equal(t, fleet.Kind, "embedded stand-ins", "the masters")
	testkit.Is(t, fleet.Masters[0].Freeze(), redistest.ErrEmbedded, "freezing one")
	t.Setenv(redistest.BinaryVariable, filepath.Join(t.TempDir(), "none"))
	_, err := startMasters(1)
	testkit.Check(t, err != nil, "a server that is named and not there is replaced")
}

func TestDemoDrawsTwoHolders(t *testing.T) {
	t.Parallel()
	for second, want := range map[time.Duration]string{4: "Two holders of the lock, for 1s", 6: "Never two holders of the lock"} {
		chart := newChart(time.Now())
		chart.Add(workerA, timeline.Span{From: time.Second, To: 5 * time.Second, State: timeline.Holds, Token: 1_000_001})
		chart.Add(workerB, timeline.Span{From: second * time.Second, State: timeline.Holds, Token: 1_000_009})
		chart.Add(names[0], timeline.Span{From: 2 * time.Second, To: 10 * time.Second, State: timeline.Down, Text: "dead"})
		p := picture(chart)
		testkit.Check(t, p.Verdict() == want, "%q of %+v, want %q", p.Verdict(), p.Rows, want)
	}
}

func TestDemoWritesThePicture(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "demo.svg")
	testkit.Must(t, os.WriteFile(path, []byte(strings.Repeat("previous ", 20_000)), 0o600))
	for path, works := range map[string]bool{path: true, filepath.Join(path, "none", "demo.svg"): false} {
		var out child.Printed
		d := &demo{narrator: &narrator{out: &out}, chart: newChart(time.Now())}
		err := d.draw(path, &out)
		testkit.Check(t, (err == nil) == works && strings.Contains(out.String(), "One lock over five masters"),
			"%s: %v, and it said\n%s", path, err, &out)
	}
	svg := testkit.Read(t, path)
	testkit.Check(t, strings.HasPrefix(svg, "<svg ") && !strings.Contains(svg, "previous"), "%.100q", svg)
}

// It sets variables of the environment, so it is not parallel.
func TestDemoPictureFitsTheTerminal(t *testing.T) {
	for _, test := range []struct {
		terminal, width int
		noColor, term   string
		colour          bool
	}{
		{60, 60, "", "xterm", true}, {60, 60, "1", "xterm", false}, {60, 60, "", "dumb", false}, {500, widest, "", "xterm", true},
		{0, 80, "", "xterm", false},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		width, colour := lineStyle(test.terminal)
		testkit.Check(t, width == test.width && colour == test.colour, "%+v: %d letters, colours %v", test, width, colour)
	}
}
