//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockstate"
)

// Two commands run at a time, each with a slot of its own, and the other commands show the slots.
func TestSlots(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 6*time.Second)
	flags := d.flagsOf(t)
	const job = "echo slot=$QUORUMLOCK_SLOT, $QUORUMLOCK_NAMES ready; exec sleep 600"
	one := d.start(t, "-slots", "2", "a", "--", "sh", "-c", job)
	other := d.start(t, "-slots", "2", "-n", "a", "--", "sh", "-c", job)
	first, second := "slot=0, a ready\n", "slot=1, a ready\n"
	if out := one.out.String() + other.out.String(); out != first+second && out != second+first {
		t.Errorf("the commands printed %q", out)
	}
	d.run(t, exitHeld, "-slots", "2", "-n", "a", "--", "true")
	d.run(t, exitOK, "-n", "a", "--", "true") // the lock of that name is another
	waiting := d.prepare("-slots", "2", "a", "--", "sh", "-c", job).begin(t)

	eventually(t, "both identities and the waiter", func() bool {
		held, _ := ask(t, exitOK, "status", flags, "-slots", "2", "a")
		drawn, _ := ask(t, exitOK, "top", flags)
		return strings.Contains(held, `"a" slot 0 is held by sh on `) && strings.Contains(held, `"a" slot 1 is held by sh on `) &&
			strings.Contains(strings.Join(strings.Fields(drawn), " "), `"a" slot 0 1 `) &&
			strings.Contains(strings.Join(strings.Fields(drawn), " "), `"a" slot 1 0 `)
	})
	hinted, _ := ask(t, exitFailed, "status", flags, "a", "b")
	contains(t, hinted, `"a" is free`, "\"a\" is also a semaphore, 2 of its slots taken: -slots N shows them\n")
	if strings.Contains(hinted, `"b" is also`) {
		t.Errorf("a semaphore without slots that are taken: %s", hinted)
	}
	three, _ := ask(t, exitFailed, "status", flags, "-slots", "3", "-json", "a")
	var slots []lockJSON
	if err := json.Unmarshal([]byte(three), &slots); err != nil || len(slots) != 3 {
		t.Fatal(err, three)
	}
	for k, s := range slots {
		if want := map[bool]string{true: lockstate.Held, false: lockstate.Free}[k < 2]; s.Name != "a" || s.Slot == nil || *s.Slot != k || s.State != want {
			t.Errorf("slot %d: %+v", k, s)
		}
	}
	if drawn, _ := ask(t, exitOK, "top", flags); strings.Contains(drawn, "quorumlock:slots") {
		t.Errorf("top shows a channel as a lock: %s", drawn)
	}

	free := strings.TrimSuffix(strings.TrimPrefix(one.out.String(), "slot="), ", a ready\n")
	printed, _ := ask(t, exitOK, "unlock", flags, "-yes", "-slot", free, "a")
	contains(t, printed, fmt.Sprintf(`unlocked: "a" slot %s was held by sh on `, free))
	waiting.awaitOutput(t, "slot="+free)
	one.await(t, exitEnded) // its renewal finds out
}

// A command that runs under a lock has no slot, even if it runs in a command that has one.
func TestNoSlotOfAnOuterCommand(t *testing.T) {
	t.Setenv("QUORUMLOCK_SLOT", "3")
	d := deploy(t, 1, 6*time.Second)
	for want, args := range map[string][]string{"none": {"a"}, "0": {"-slots", "1", "a"}} {
		out, _ := d.run(t, exitOK, append(args, "--", "sh", "-c", "echo slot=${QUORUMLOCK_SLOT-none}")...)
		contains(t, out, "slot="+want+"\n")
	}
}

func TestSlotsLines(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"run: -slots needs a number from 1 to 1024":   {"run", "-slots", "0", "a", "--", "true"},
		"run: -slots takes one name":                  {"run", "-slots", "2", "a,b", "--", "true"},
		"status: -slots needs a number from 1 to":     {"status", "-slots", "1025", "a"},
		"unlock: -slot needs a number from 0 to 1023": {"unlock", "-slot", "-1", "a"},
	} {
		_, stderr := command(t, exitRunUsage, args...)
		contains(t, stderr, "quorumlock: "+says)
	}
}
