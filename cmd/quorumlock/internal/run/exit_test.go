//go:build unix

package run

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestRunUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says string
		args []string
	}{
		{"the name of the lock is missing", nil},
		{"after the name comes --", []string{"x"}},
		{"after the name comes --", []string{"x", "true"}},
		{"the name of the lock is missing", []string{"-n", "--", "x", "true"}},
		{"after the name comes --", []string{"x", "-n", "--", "true"}},
		{"the command after -- is missing", []string{"x", "--"}},
		{"the command after -- is empty", []string{"x", "--", ""}},
		{"a name is empty", []string{"x,,y", "--", "true"}},
		{`unknown flag: "-x"`, []string{"-x", "x", "--", "true"}},
		{"unknown flag (", []string{"-redis://:" + clitest.Secret + "@h", "x", "--", "true"}},
		{"flag needs an argument: -w", []string{"-w"}},
		{"-w needs a duration", []string{"-w", clitest.Secret, "x", "--", "true"}},
		{"-w needs a duration", []string{"-w", "-1s", "x", "--", "true"}},
		{"use -n or -w, not both", []string{"-n", "-w", "1s", "x", "--", "true"}},
		{"-n is given alone", []string{"-n=" + clitest.Secret, "x", "--", "true"}},
		{"-E needs an exit code", []string{"-E", "256", "x", "--", "true"}},
		{"-urls-file needs the path", []string{"-urls-file", "redis://:" + clitest.Secret + "@h", "x", "--", "true"}},
		{"-cacert needs the path", []string{"-cacert", "redis://:" + clitest.Secret + "@h", "x", "--", "true"}},
		{"-owner-file needs the path", []string{"-owner-file", "redis://:" + clitest.Secret + "@h", "x", "--", "true"}},
		{"URLs do not belong on the command line", []string{"redis://:" + clitest.Secret + "@h", "--", "true"}},
		{"URLs do not belong on the command line", []string{"x,Redis+Sentinel://:" + clitest.Secret + "@h", "--", "true"}},
		{"-lease 31s is above the max lease 30s: the lock is renewed while the command runs, and -max-hold bounds how long", []string{"-lease", "31s", "x", "--", "true"}},
		{"-lease needs a duration such as 30s, at least 10ms", []string{"-lease", "9ms", "x", "--", "true"}},
		{"max lease 10000h0m0s", []string{"-max-lease", "10000h", "x", "--", "true"}},
		{"timeout 25h0m0s", []string{"-timeout", "25h", "x", "--", "true"}},
		{"-k 16s is more than half of the lease 30s", []string{"-k", "16s", "x", "--", "true"}},
		{"-min-hold 4s is above -max-hold 3s", []string{"-min-hold", "4s", "-max-hold", "3s", "x", "--", "true"}},
		{"-k 3s is not below -max-hold 3s", []string{"-k", "3s", "-max-hold", "3s", "x", "--", "true"}},
	} {
		stdout, stderr := clitest.Command(t, cli.ExitLockUsage, append([]string{"run"}, test.args...)...)
		clitest.Contains(t, clitest.OneErrorLine(t, stderr), test.says, "(see quorumlock run -h)")
		testkit.Check(t, stdout == "" && !strings.Contains(stderr, clitest.Secret),
			"%q: stdout %q, stderr %q", test.args, stdout, stderr)
	}
	help, _ := clitest.Command(t, cli.ExitOK, "run", "-n", "-h")
	clitest.Contains(t, help, "quorumlock run", "-max-hold")
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

func TestRunExitCodeOfTheCommand(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	plain := filepath.Join(t.TempDir(), "plain")
	testkit.Must(t, os.WriteFile(plain, []byte("no program\n"), 0o600))
	garbage := filepath.Join(t.TempDir(), "garbage")
	testkit.Must(t, testchild.WriteProgram(garbage, "no program\n"))
	for _, test := range []struct {
		code    int
		says    string // on stderr
		command []string
	}{
		{0, "", []string{"true"}},
		{7, "", []string{"sh", "-c", "exit 7"}},
		{75, "", []string{"sh", "-c", "exit 75"}},
		{128 + 9, "", []string{"sh", "-c", "kill -9 $$"}},
		{cli.ExitNotFound, `"no-such-command" is not found`, []string{"no-such-command"}},
		{cli.ExitNotFound, `is not found`, []string{plain + "-none"}},
		{cli.ExitNotExecutable, "plain\" cannot be executed: permission denied", []string{plain}},
		{cli.ExitNotExecutable, "garbage\" cannot be executed: exec format error", []string{garbage}},
		{cli.ExitNotExecutable, "cannot be executed", []string{filepath.Dir(plain)}},
	} {
		_, stderr := d.Run(t, test.code, append([]string{"-n", "x", "--"}, test.command...)...)
		clitest.Contains(t, stderr, test.says)
		testkit.Check(t, test.says != "" || stderr == "", "%q: stderr %q", test.command, stderr)
	}
}

func TestRunWhenHeld(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	d.Start(t, "a,b", "--", "sh", "-c", "echo ready; exec sleep 600")
	_, stderr := d.Run(t, cli.ExitHeld, "-n", "b,c", "--", "echo", "ran")
	clitest.Contains(t, stderr, `lock "b" "c": not acquired: held by `)
	_, stderr = d.Run(t, cli.ExitHeld, "-w", "3s", "b", "--", "true")
	clitest.Contains(t, strings.Replace(stderr, ": gave up after 3s: held by another (", ": held by another: gave up after 3s (", 1), // an attempt was under way
		"held by ", ": gave up after 3s (")
	d.Run(t, cli.ExitHeld, "-w", "0", "b", "--", "true")
	d.Run(t, 0, "-n", "-E", "0", "b", "--", "true")
	d.Run(t, 9, "-w", "3s", "-E", "9", "b", "--", "true")
	d.Run(t, cli.ExitNotFound, "b", "--", "no-such-command") // without waiting
}

func TestRunWithTooFewMasters(t *testing.T) {
	t.Parallel()
	d := &clitest.Deployment{Fleet: testkit.Real(t, 3), MaxLease: 30 * time.Second}
	_, stderr := d.Run(t, cli.ExitUnavailable, "-n", "x", "--", "true")
	clitest.Contains(t, stderr, "in quarantine")
	p := d.Prepare("-w", "5s", "x", "--", "true").Begin(t)
	p.Await(t, cli.ExitUnavailable)
	clitest.Contains(t, p.Errs.String(), "quorumlock: run: waiting for masters: ", "nodes in quarantine")
	clitest.Contains(t, p.Errs.String(), "nodes in quarantine", "gave up after 5s") // in this order unless an attempt was under way

	clitest.Command(t, cli.ExitOK, append([]string{"admit", "-yes"}, d.URLs()...)...)
	kill(t, d, 0, 1)
	_, stderr = d.Run(t, cli.ExitUnavailable, "-n", "-E", "1", "x", "--", "true")
	clitest.Contains(t, stderr, "nodes unavailable", d.Masters[0].Addr())
}

func TestRunWithUnusableMasters(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	stranger := testkit.Real(t, 1).Masters[0]
	urls, none := d.URLs(), filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		urls string
		args []string
		says []string
	}{
		{"", nil, []string{"no masters in QUORUMLOCK_URLS"}},
		{" , \n", nil, []string{"no masters in QUORUMLOCK_URLS"}},
		{urls[0], []string{"-urls-file", "/dev/null"}, []string{"no masters in /dev/null"}},
		{urls[0], []string{"-urls-file", none}, []string{none, "no such file"}},
		{urls[0], []string{"-urls-file", ":" + clitest.Secret + "@h"}, []string{"-urls-file: no such file"}},
		{urls[0] + " " + clitest.Secret, nil, []string{"URL 2: "}},
		{urls[0] + " redis://user:" + clitest.Secret + "/" + clitest.Secret + "@host", nil, []string{"URL 2: "}},
		{urls[0] + " redis://:" + clitest.Secret + "@" + d.Masters[0].Addr(), nil, []string{"given twice"}},
		{urls[0] + " " + urls[1], nil, []string{"odd"}},
		{urls[0] + " " + urls[1] + " " + stranger.URL(), nil, []string{"lists of masters differ", stranger.Addr()}},
	} {
		p := d.Prepare(append(test.args, "-w", "20s", "x", "--", "true")...)
		p.Env = append(p.Env, masters.URLsVariable+"="+test.urls)
		p.Begin(t).Ends(t, cli.ExitConfiguration, test.says...)
		testkit.Check(t, !strings.Contains(p.Errs.String(), clitest.Secret), "a password was printed: %s", &p.Errs)
	}
	_, stderr := d.Run(t, cli.ExitLockUsage, "quorumlock:x", "--", "true")
	clitest.Contains(t, stderr, "quorumlock:x")
	d.Prepare("-max-lease", "29s", "x", "--", "true").Begin(t).Ends(t, cli.ExitConfiguration, "max lease")

	// A list that the masters refuse is a configuration error also while a host of it is down.
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

func TestRunWithWrongCredentials(t *testing.T) {
	t.Parallel()
	d := clitest.Deploy(t, 3, 30*time.Second)
	for _, m := range d.Masters[:2] {
		testkit.Do(t, m, "CONFIG", "SET", "requirepass", "another")
	}
	_, stderr := d.Run(t, cli.ExitCredentials, "x", "--", "true") // without waiting
	clitest.Contains(t, stderr, "NOAUTH", d.Masters[0].Addr())
	p := d.Prepare("-n", "x", "--", "true")
	p.Env = append(p.Env, masters.URLsVariable+"="+strings.ReplaceAll(strings.Join(d.URLs(), " "), "//", "//:"+clitest.Secret+"@"))
	p.Begin(t).Ends(t, cli.ExitCredentials, "WRONGPASS")
	testkit.Check(t, !strings.Contains(p.Errs.String(), clitest.Secret), "a password was printed: %s", &p.Errs)
}

// run does not wait for masters that run no scripts, and check names what is wrong.
func TestMastersThatRunNoScripts(t *testing.T) {
	t.Parallel()
	d := &clitest.Deployment{Fleet: testkit.Real(t, 3, "--rename-command", "EVALSHA", ""), MaxLease: 30 * time.Second}
	_, stderr := d.Run(t, cli.ExitConfiguration, "x", "--", "true")
	clitest.Contains(t, stderr, "runs no Lua scripts")
	stdout, _ := clitest.Command(t, cli.ExitFailed, append([]string{"check"}, d.URLs()...)...)
	clitest.Contains(t, stdout, "runs no Lua scripts")
}
