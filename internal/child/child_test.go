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

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A copy of this program prints, and then nothing until its input ends.
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
	in := testkit.Got(cmd.StdinPipe())(t)
	defer in.Close()
	out := testkit.Got(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	lines := bufio.NewReader(said.Tee(out))
	next := func() error { _, err := lines.ReadString('\n'); return err }
	testkit.Must(t, Await(cmd, said, time.Minute, "its first line", next))
	err := Await(cmd, said, 50*time.Millisecond, "its second line", next)
	_ = cmd.Wait() // it was killed
	testkit.Require(t, errors.Is(err, errLate), "a line that never comes: %v, want errLate", err)
	for _, part := range []string{"its second line", "50ms", "ready"} {
		testkit.Check(t, strings.Contains(err.Error(), part), "%q lacks %q", err, part)
	}
	text := said.String()
	testkit.Check(t, strings.Contains(text, "no master answers"), "what it wrote to its standard error is lost: %s", text)
}
