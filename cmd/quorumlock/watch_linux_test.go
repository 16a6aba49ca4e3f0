package main

import (
	"strings"
	"testing"
	"time"
)

// status -watch and top draw again and again, until Ctrl-C or q, and leave the terminal as it was: they
// change no mode of it.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 30*time.Second)
	c := d.open(t, "-c", `trap : INT; "$0" status -watch -timeout 2s a; echo "code $?"; "$0" top -every 200ms -timeout 2s
		echo "code $?"; "$0" top -every 200ms -timeout 2s; echo "code $?"; read -r line; echo "line: $line"`)
	c.awaitOutput(t, `"a" is free`)
	d.start(t, "a", "--", "sh", "-c", "echo ready; exec sleep 600")
	c.awaitOutput(t, `"a" is held by sh on `)
	c.press(t, ctrlC)
	c.awaitOutput(t, "code 130\n")
	c.eventually(t, "the lock in top's table", func() bool {
		_, table, _ := strings.Cut(c.out.String(), "WAITING")
		return strings.Contains(table, `"a" `)
	})
	c.press(t, ctrlC)
	eventually(t, "the second end", func() bool { return strings.Count(c.out.String(), "code 130\n") == 2 })
	c.press(t, "no\nq\n")
	c.awaitOutput(t, "code 0\n")
	c.press(t, "typed\n")
	c.awaitOutput(t, "line: typed\n")
	c.await(t, 0)
	if said := c.out.String(); strings.Contains(said, "\x1b[?") || strings.Count(said, "\x1b[2J") != 3 {
		t.Errorf("it changed a mode of the terminal, or did not clear it three times: %q", said)
	}
}
