//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
)

// TestMain makes a copy of this program the command, or what the command runs.
func TestMain(m *testing.M) {
	switch os.Getenv("SESSION_TEST") {
	case "session":
		main()
	case "sleeper": // tells its session, then waits for the interrupt
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		id, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		fmt.Println("session", id, "process", os.Getpid(), "nice", niceness())
		if err := os.WriteFile(os.Args[1], nil, 0o600); err != nil {
			panic(err)
		}
		<-interrupted
		os.Exit(7)
	}
	os.Exit(m.Run())
}

// niceness waits for a session's niceness that is not 0, where the kernel has it.
func niceness() (n int) {
	poll.Until(10*time.Second, func() bool {
		text, err := os.ReadFile("/proc/self/autogroup")
		if err != nil || len(text) == 0 { // sessions have none
			n = 7
			return true
		}
		_, err = fmt.Sscanf(string(text), "/autogroup-%d nice %d", new(int), &n)
		return err != nil || n != 0
	})
	return n
}

// The command leads a session of its own, as nice as we are, is interrupted with us, and its exit code is ours.
func TestTheSessionIsItsOwn(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := exec.Command("nice", "-n", "7", os.Args[0], "env", "SESSION_TEST=sleeper", os.Args[0], ready)
	cmd.Env = append(os.Environ(), "SESSION_TEST=session")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	started := poll.Until(time.Minute, func() bool { _, err := os.Stat(ready); return err == nil })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	err := cmd.Wait()
	if !started || cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("started %v, ended with %v, want exit status 7: %s", started, err, said.String())
	}
	var session, process, nice int
	if _, err := fmt.Sscanf(said.String(), "session %d process %d nice %d", &session, &process, &nice); err != nil || session != process || nice < 7 {
		t.Errorf("not the leader of its session, or less nice than 7: %v: %s", err, said.String())
	}
}

// The command ends with the parent of the program, which may be go run.
func TestItEndsWithTheParent(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	parent := exec.Command("sh", "-c", `"$0" sh -c 'trap "rm \"$0\"; exit" TERM; : >"$0"; sleep 120 & wait' "$1" & wait`, os.Args[0], ready)
	parent.Env = append(os.Environ(), "SESSION_TEST=session")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	is := func() bool { _, err := os.Stat(ready); return err == nil }
	if !poll.Until(time.Minute, is) {
		t.Error("the command does not start")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if !poll.Until(time.Minute, func() bool { return !is() }) {
		t.Error("the command goes on")
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 3"}, 3, ""},
		{[]string{"sh", "-c", "kill -9 $$"}, 1, "session: signal: killed"},
		{[]string{"no-such-command"}, 2, `session: exec: "no-such-command"`},
		{nil, 2, "session: name the command"},
	} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = append(os.Environ(), "SESSION_TEST=session")
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.code || !strings.HasPrefix(string(out), c.says) || c.says == "" && len(out) > 0 {
			t.Errorf("%q: %d, %s; want %d, %q", c.args, cmd.ProcessState.ExitCode(), out, c.code, c.says)
		}
	}
}
