//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestUnlock(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 6*time.Second)
	flags := d.flagsOf(t)
	p := d.start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	d.awaitIdentity(t, flags, "a")
	printed, asked := ask(t, exitRunUsage, "unlock", flags, "a", "b")
	contains(t, asked, "two holders are possible", `"a" is held by sh on `, `"b" is free`, "the same command with -yes")
	if printed != "" {
		t.Errorf("without -yes: %q", printed)
	}
	ask(t, exitOK, "status", flags, "a")

	printed, _ = ask(t, exitOK, "unlock", flags, "-yes", "a", "b")
	contains(t, printed, `unlocked: "a" was held by sh on `, `unlocked: "b" was free`)
	ask(t, exitFailed, "status", flags, "a")
	d.run(t, exitOK, "-n", "a", "--", "true")
	p.await(t, exitEnded) // its renewal, at a third of the lease, finds out

	// A minority is no obstacle; a majority that refuses, or does not answer, is.
	testkit.Do(t, d.Masters[0], "SET", "a", "text")
	ask(t, exitOK, "unlock", flags, "-yes", "a")
	testkit.Do(t, d.Masters[1], "SET", "a", "text")
	printed, _ = ask(t, exitFailed, "unlock", flags, "-yes", "a")
	contains(t, printed, `NOT UNLOCKED: "a"`, d.Masters[1].Addr())
	for _, m := range d.Masters[:2] {
		if text := fmt.Sprintf("%s", testkit.Do(t, m, "GET", "a")); text != "text" {
			t.Error("unlock deleted a key that is no lock")
		}
		testkit.Must(t, m.Kill())
	}
	printed, _ = ask(t, exitUnavailable, "unlock", flags, "-yes", "a")
	contains(t, printed, `NOT UNLOCKED: "a"`, d.Masters[1].Addr())
	ask(t, exitRunUsage, "unlock", flags, "-yes")
	ask(t, exitRunUsage, "unlock", flags, "-json", "a")
}

// The holder changes between display and deletion: the successor keeps its lock, by -yes and by the line that was
// shown. run tells that the holder was a process of this host that is dead, and how to free its lock.
func TestUnlockDeletesNoSuccessor(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	flags := d.flagsOf(t)
	const job = "echo ready; exec sleep 600"
	paste := func(shown, before string) (printed string) {
		t.Helper()
		_, line, _ := strings.Cut(shown, before+"quorumlock ")
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		if len(words) == 0 || !strings.HasSuffix(line, " -owner "+words[len(words)-2]+" a") {
			t.Fatalf("no line to paste: %s", shown)
		}
		printed, _ = command(t, exitOK, words...)
		return printed
	}
	dead := d.start(t, "a", "--", "sh", "-c", job)
	d.awaitIdentity(t, flags, "a")
	dead.send(t, syscall.SIGKILL)
	dead.eventually(t, "run gone", dead.hasExited)
	_, shown := ask(t, exitRunUsage, "unlock", flags, "a")
	nodes, _, err := openMasters(flags[5], tlsFiles{})
	testkit.Must(t, err)
	defer closeAll(nodes)
	old := inspect(t.Context(), nodes, false, []string{"a"})[0]

	_, refused := d.run(t, exitHeld, "-urls-file", flags[5], "-n", "a", "--", "true")
	contains(t, refused, fmt.Sprintf("this host has no process %d: ", dead.Process.Pid))
	contains(t, paste(refused, "frees its lock: "), `unlocked: "a" was held by sh on `)
	d.start(t, "-n", "a", "--", "sh", "-c", job) // at once

	contains(t, paste(shown, "\n  "), `has nothing left here; before: "a" is held `)
	locker, err := redlock.New(nodes)
	testkit.Must(t, err)
	defer locker.Close()
	if code := forceOne(t.Context(), locker, old, "", 2, io.Discard); code != exitOK {
		t.Error("exit code", code)
	}
	ask(t, exitOK, "status", flags, "a")
}

// A part of the masters of another list must not say that the lock is gone.
func TestUnlockWithAnotherList(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	d.start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	other := &deployment{&redistest.Fleet{Masters: d.Masters[:1]}, d.maxLease}
	printed, _ := ask(t, exitFailed, "unlock", other.flagsOf(t), "-yes", "a")
	contains(t, printed, "NOT UNLOCKED", "it accepts clients with {")
	if strings.Contains(printed, "unlocked:") || testkit.Do(t, d.Masters[0], "EXISTS", "a") != int64(1) {
		t.Errorf("it unlocked on one master: %s", printed)
	}
}
