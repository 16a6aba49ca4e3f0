package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A copy of this program prints, and then says no more until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv("QUORUMLOCK_TEST_CHILD") != "" {
		fmt.Fprintln(os.Stderr, "no master answers")
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestAwait(t *testing.T) {
	said := &Output{}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "QUORUMLOCK_TEST_CHILD=1")
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said.Tee(out))
	next := func() error { _, err := lines.ReadString('\n'); return err }
	if err := Await(cmd, said, time.Minute, "its first line", next); err != nil {
		t.Fatal(err)
	}
	err = Await(cmd, said, 50*time.Millisecond, "its second line", next)
	_ = cmd.Wait() // it was killed
	if !errors.Is(err, errLate) {
		t.Fatalf("a line that never comes: %v, want errLate", err)
	}
	for _, part := range []string{"its second line", "50ms", "ready"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if text := said.String(); !strings.Contains(text, "no master answers") {
		t.Errorf("what it wrote to its standard error is lost: %s", text)
	}
}

// Of a child that prints much, the end is kept.
func TestOutputIsBounded(t *testing.T) {
	said := &Output{}
	if text := said.String(); !strings.Contains(text, "nothing") {
		t.Errorf("of a silent child: %s", text)
	}
	for range 3 {
		fmt.Fprint(said, strings.Repeat("x", most))
	}
	fmt.Fprint(said, "the end")
	if text := said.String(); len(text) > most+100 || !strings.HasSuffix(text, "the end") {
		t.Errorf("%d bytes are kept: …%s", len(text), text[len(text)-20:])
	}
}
