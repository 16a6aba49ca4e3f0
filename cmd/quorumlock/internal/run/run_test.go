//go:build unix

package run

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/locks"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
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
