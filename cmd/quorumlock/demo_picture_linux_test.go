package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// screenOf returns a terminal that is so many letters wide.
func screenOf(t *testing.T, width uint16) *os.File {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: no terminals here: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	fd := int(keys.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width})
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	return screen
}

// It sets variables of the environment, so it is not parallel.
func TestPictureFitsTheTerminal(t *testing.T) {
	for _, test := range []struct {
		out           io.Writer
		noColor, term string
		width         int
		colour        bool
	}{
		{screenOf(t, 60), "", "xterm", 60, true},
		{screenOf(t, 60), "1", "xterm", 60, false},
		{screenOf(t, 60), "", "dumb", 60, false},
		{screenOf(t, 500), "", "xterm", widest, true},
		{screenOf(t, 0), "", "xterm", 80, true}, // it does not know
		{new(output), "", "xterm", 80, false},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		if width, colour := lineStyle(test.out); width != test.width || colour != test.colour {
			t.Errorf("%+v: %d letters, colours %v", test, width, colour)
		}
	}
}
