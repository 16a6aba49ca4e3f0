package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A pipe that nobody reads is refused, and not waited for.
func TestDemoRefusesAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "demo.svg")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		f, err := openPicture(path)
		f.abandon()
		refused <- err
	}()
	select {
	case err := <-refused:
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for a reader")
		if reader, err := os.OpenFile(path, os.O_RDWR, 0); err == nil { // lets the goroutine go
			defer reader.Close()
			<-refused
		}
	}
}

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
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, test := range []struct {
		out           *os.File
		noColor, term string
		width         int
		colour        bool
	}{
		{screenOf(t, 60), "", "xterm", 60, true},
		{screenOf(t, 60), "1", "xterm", 60, false},
		{screenOf(t, 60), "", "dumb", 60, false},
		{screenOf(t, 500), "", "xterm", widest, true},
		{screenOf(t, 0), "", "xterm", 80, true}, // it does not know
		{file, "", "xterm", 80, false},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		t.Setenv("TERM", test.term)
		text, err := lines(play(t, 4*time.Second), test.out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "\x1b[1;31m!") != test.colour || strings.Contains(text, "\x1b") != test.colour {
			t.Errorf("%+v: %q", test, text)
		}
		wide := 0
		for line := range strings.Lines(text) {
			for _, colour := range []string{"32", "36", "35", "33", "90", "34", "1;31", "0"} {
				line = strings.ReplaceAll(line, "\x1b["+colour+"m", "")
			}
			wide = max(wide, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if wide > test.width || wide < test.width-3 {
			t.Errorf("%+v: %d letters wide:\n%s", test, wide, text)
		}
	}
}
