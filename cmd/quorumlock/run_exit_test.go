//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testchild "github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

const secret = "pw-never-shown"

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
		{"unknown flag (", []string{"-redis://:" + secret + "@h", "x", "--", "true"}},
		{"flag needs an argument: -w", []string{"-w"}},
		{"-w needs a duration", []string{"-w", secret, "x", "--", "true"}},
		{"-w needs a duration", []string{"-w", "-1s", "x", "--", "true"}},
		{"use -n or -w, not both", []string{"-n", "-w", "1s", "x", "--", "true"}},
		{"-n is given alone", []string{"-n=" + secret, "x", "--", "true"}},
		{"-E needs an exit code", []string{"-E", "256", "x", "--", "true"}},
		{"-urls-file needs the path", []string{"-urls-file", "redis://:" + secret + "@h", "x", "--", "true"}},
		{"URLs do not belong on the command line", []string{"redis://:" + secret + "@h", "--", "true"}},
		{"-lease 31s is above the max lease 30s", []string{"-lease", "31s", "x", "--", "true"}},
		{"-lease needs a duration such as 30s, at least 10ms", []string{"-lease", "9ms", "x", "--", "true"}},
		{"max lease 10000h0m0s", []string{"-max-lease", "10000h", "x", "--", "true"}},
		{"timeout 25h0m0s", []string{"-timeout", "25h", "x", "--", "true"}},
		{"-k 16s is more than half of the lease 30s", []string{"-k", "16s", "x", "--", "true"}},
		{"-min-hold 4s is above -max-hold 3s", []string{"-min-hold", "4s", "-max-hold", "3s", "x", "--", "true"}},
		{"-k 3s is not below -max-hold 3s", []string{"-k", "3s", "-max-hold", "3s", "x", "--", "true"}},
	} {
		stdout, stderr := command(t, exitRunUsage, append([]string{"run"}, test.args...)...)
		contains(t, oneErrorLine(t, stderr), test.says, "(see quorumlock run -h)")
		if stdout != "" || strings.Contains(stderr, secret) {
			t.Errorf("%q: stdout %q, stderr %q", test.args, stdout, stderr)
		}
	}
	help, _ := command(t, exitOK, "run", "-n", "-h")
	contains(t, help, "quorumlock run", "-max-hold")
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
		l, f := newRunLine()
		var err error
		(&program{}).command(runName, "", "", f, 0, func(_ context.Context, args []string) int {
			err = l.take(args, []string{"--", "true"})
			return 0
		}).Run(t.Context(), append([]string{runName}, append(strings.Fields(flags), "x")...))
		if err != nil || l.grace != want {
			t.Errorf("%q: %+v, %v, want a grace of %v", flags, l, err, want)
		}
	}
}

func TestRunExitCodeOfTheCommand(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
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
		{exitNotFound, `"no-such-command" is not found`, []string{"no-such-command"}},
		{exitNotFound, `is not found`, []string{plain + "-none"}},
		{exitNotExecutable, "plain\" cannot be executed: permission denied", []string{plain}},
		{exitNotExecutable, "garbage\" cannot be executed: exec format error", []string{garbage}},
		{exitNotExecutable, "cannot be executed", []string{filepath.Dir(plain)}},
	} {
		_, stderr := d.run(t, test.code, append([]string{"-n", "x", "--"}, test.command...)...)
		contains(t, stderr, test.says)
		if test.says == "" && stderr != "" {
			t.Errorf("%q: stderr %q", test.command, stderr)
		}
	}
}

func TestRunWhenHeld(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	d.start(t, "a,b", "--", "sh", "-c", "echo ready; exec sleep 600")
	_, stderr := d.run(t, exitHeld, "-n", "b,c", "--", "echo", "ran")
	contains(t, stderr, `lock "b" "c": not acquired: held by `)
	_, stderr = d.run(t, exitHeld, "-w", "3s", "b", "--", "true")
	contains(t, strings.Replace(stderr, ": gave up after 3s: held by another (", ": held by another: gave up after 3s (", 1), // an attempt was under way
		"held by ", ": gave up after 3s (")
	d.run(t, exitHeld, "-w", "0", "b", "--", "true")
	d.run(t, 0, "-n", "-E", "0", "b", "--", "true")
	d.run(t, 9, "-w", "3s", "-E", "9", "b", "--", "true")
	d.run(t, exitNotFound, "b", "--", "no-such-command") // without waiting
}

func TestRunWithTooFewMasters(t *testing.T) {
	t.Parallel()
	d := &deployment{testkit.Real(t, 3), 30 * time.Second}
	_, stderr := d.run(t, exitUnavailable, "-n", "x", "--", "true")
	contains(t, stderr, "in quarantine")
	p := d.prepare("-w", "5s", "x", "--", "true").begin(t)
	p.await(t, exitUnavailable)
	contains(t, p.errs.String(), "quorumlock: run: waiting for masters: ", "nodes in quarantine")
	contains(t, p.errs.String(), "nodes in quarantine", "gave up after 5s") // in this order unless an attempt was under way

	command(t, exitOK, append([]string{"admit", "-yes"}, d.URLs()...)...)
	for _, m := range d.Masters[:2] {
		testkit.Must(t, m.Kill())
	}
	_, stderr = d.run(t, exitUnavailable, "-n", "-E", "1", "x", "--", "true")
	contains(t, stderr, "nodes unavailable", d.Masters[0].Addr())
}

func TestRunWithUnusableMasters(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
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
		{urls[0] + " " + secret, nil, []string{"URL 2: "}},
		{urls[0] + " redis://user:" + secret + "/" + secret + "@host", nil, []string{"URL 2: "}},
		{urls[0] + " redis://:" + secret + "@" + d.Masters[0].Addr(), nil, []string{"given twice"}},
		{urls[0] + " " + urls[1], nil, []string{"odd"}},
		{urls[0] + " " + urls[1] + " " + stranger.URL(), nil, []string{"lists of masters differ", stranger.Addr()}},
	} {
		p := d.prepare(append(test.args, "-w", "20s", "x", "--", "true")...)
		p.Env = append(p.Env, urlsVariable+"="+test.urls)
		p.begin(t).await(t, exitConfiguration)
		contains(t, oneErrorLine(t, p.errs.String()), test.says...)
		if strings.Contains(p.errs.String(), secret) {
			t.Errorf("a password was printed: %s", &p.errs)
		}
	}
	_, stderr := d.run(t, exitRunUsage, "quorumlock:x", "--", "true")
	contains(t, stderr, "quorumlock:x")
	p := d.prepare("-max-lease", "29s", "x", "--", "true").begin(t)
	p.await(t, exitConfiguration)
	contains(t, oneErrorLine(t, p.errs.String()), "max lease")

	// A list that the masters refuse is a configuration error also while a host of it is down.
	testkit.Must(t, d.Masters[2].Kill())
	for range 5 {
		for _, wait := range []string{"-n", "-w=20s"} {
			env := urlsVariable + "=" + urls[0] + " " + urls[1] + " " + urls[2] + "?name=another"
			p := whileStalled(t, 5*time.Millisecond, func() (*process, bool) {
				p := d.prepare(wait, "x", "--", "true")
				p.Env = append(p.Env, env)
				p.begin(t)
				p.eventually(t, "the end of run", p.hasExited)
				// While the machine stands still, run waits for the second master that refuses it, and says so.
				return p, p.ProcessState.ExitCode() == exitConfiguration && strings.Count(p.errs.String(), "\n") == 1
			})
			p.await(t, exitConfiguration)
			contains(t, oneErrorLine(t, p.errs.String()), "will not pass by itself", "lists of masters differ")
		}
	}
}

func TestRunWithWrongCredentials(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	for _, m := range d.Masters[:2] {
		testkit.Do(t, m, "CONFIG", "SET", "requirepass", "another")
	}
	_, stderr := d.run(t, exitCredentials, "x", "--", "true") // without waiting
	contains(t, stderr, "NOAUTH", d.Masters[0].Addr())
	p := d.prepare("-n", "x", "--", "true")
	p.Env = append(p.Env, urlsVariable+"="+strings.ReplaceAll(strings.Join(d.URLs(), " "), "//", "//:"+secret+"@"))
	p.begin(t).await(t, exitCredentials)
	contains(t, oneErrorLine(t, p.errs.String()), "WRONGPASS")
	if strings.Contains(p.errs.String(), secret) {
		t.Errorf("a password was printed: %s", &p.errs)
	}
}

// run does not wait for masters that run no scripts, and check names what is wrong.
func TestMastersThatRunNoScripts(t *testing.T) {
	t.Parallel()
	d := &deployment{testkit.Real(t, 3, "--rename-command", "EVALSHA", ""), 30 * time.Second}
	_, stderr := d.run(t, exitConfiguration, "x", "--", "true")
	contains(t, stderr, "runs no Lua scripts")
	stdout, _ := command(t, exitFailed, append([]string{"check"}, d.URLs()...)...)
	contains(t, stdout, "runs no Lua scripts")
}
