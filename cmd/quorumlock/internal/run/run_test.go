//go:build unix

package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.App{Commands: append([]cli.Command{Command, masters.Check, masters.Admit}, locks.Commands...)})
}

func TestDefaultGrace(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]time.Duration{
		"":                                 5 * time.Second,
		"-lease 6s":                        2 * time.Second,
		"-max-lease 3s":                    time.Second,
		"-max-hold 4s":                     2 * time.Second,
		"-k 0":                             0,
		"-lease 8s -k 4s -max-hold 4001ms": 4 * time.Second,
	} {
		var l *line
		var err error
		row := cli.Command{Name: "run", Arguments: "NAME", Job: true, Define: func(flags *cli.Flags) cli.Action {
			l = newLine(flags)
			return func(_ context.Context, p *cli.Program, args []string) int {
				err = l.take(args, p.Job)
				return cli.ExitOK
			}
		}}
		args := append(append([]string{"run"}, strings.Fields(flags)...), "x", "--", "true")
		cli.App{Commands: []cli.Command{row}}.Run(t.Context(), args, io.Discard, io.Discard)
		testkit.Check(t, err == nil && l.grace == want, "%q: %+v, %v, want a grace of %v", flags, l, err, want)
	}
}

// A list that the masters refuse is a configuration error also while a host of it is down.
func TestRunIsRefusedWhileAMasterIsDown(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	urls := d.URLs()
	testkit.Must(t, d.Masters[2].Kill())
	for range 5 {
		for _, wait := range []string{"-n", "-w=20s"} {
			env := masters.URLsVariable + "=" + urls[0] + " " + urls[1] + " " + urls[2] + "?name=another"
			p := clitest.WhileStalled(t, 5*time.Millisecond, func() (*clitest.Process, bool) {
				p := d.Prepare(wait, "x", "--", "true")
				p.Env = append(p.Env, env)
				p.Begin(t)
				p.Eventually(t, "the end of run", p.HasExited)
				// While the machine stands still, run waits for the second master that refuses it, and says so.
				return p, p.ProcessState.ExitCode() == cli.ExitConfiguration && strings.Count(p.Errs.String(), "\n") == 1
			})
			p.Ends(t, cli.ExitConfiguration, "not retryable", "lists of masters differ")
		}
	}
}

// The crontab line on three machines, each next to one of the masters and 10 ms from the other two: at each tick one runs
// the job, and the others hear who has the lock.
func TestOneOfSimultaneousRunsHasTheLock(t *testing.T) {
	t.Parallel()
	const ticks = 10
	d := clitest.Deploy(t, 3, 30*time.Second)
	places := make([]string, len(d.Masters))
	for at := range places {
		var urls []string
		for i, m := range d.Masters {
			addr := m.Addr()
			if i != at {
				far, err := forward.New(addr)
				testkit.Must(t, err)
				t.Cleanup(far.Close)
				far.DelayRequests(10*time.Millisecond, 0)
				addr = far.Addr()
			}
			urls = append(urls, fmt.Sprintf("redis://%s?name=%s", addr, m.Addr()))
		}
		places[at] = strings.Join(urls, ",")
	}
	end := filepath.Join(t.TempDir(), "end")
	for tick := range ticks {
		name := fmt.Sprint("tick ", tick)
		var all []*clitest.Process
		for _, urls := range places {
			p := d.Prepare("-n", name, "--", "sh", "-c", "until [ -e '"+end+"' ]; do sleep 0.01; done")
			p.Env = append(p.Env, masters.URLsVariable+"="+urls)
			all = append(all, p)
		}
		for _, p := range all {
			p.Begin(t)
		}
		running := func() (those []*clitest.Process) {
			for _, p := range all {
				if !p.HasExited() {
					those = append(those, p)
				}
			}
			return those
		}
		clitest.Eventually(t, "one of them with the lock", func() bool { return len(running()) < 2 })
		testkit.Must(t, os.WriteFile(end, nil, 0o600))
		ran := 0
		for _, p := range all {
			<-p.Exited
			if p.ProcessState.ExitCode() == cli.ExitOK {
				ran++
				continue
			}
			p.Ends(t, cli.ExitHeld, "held by ")
		}
		testkit.Check(t, ran == 1, "%s: %d of %d ran", name, ran, len(all))
		testkit.Must(t, os.Remove(end))
	}
}
