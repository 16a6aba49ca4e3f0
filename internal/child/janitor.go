package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Janitor is a copy of this program that cleans up after this process, however that ends.
type Janitor struct {
	cmd   *exec.Cmd
	alive io.WriteCloser // its standard input, which ends with this process
}

// StartJanitor starts one, with a variable in its environment that says what to clean up.
func StartJanitor(variable, what string) (*Janitor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), variable+"="+what)
	cmd.SysProcAttr = ownGroup() // a terminal's Ctrl-C is for this process only
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &Janitor{cmd, alive}, cmd.Start()
}

// Close tells the janitor a word, or none, and waits until it has cleaned up. A second Close does nothing.
func (j *Janitor) Close(word string) error {
	_, _ = io.WriteString(j.alive, word)
	err := j.alive.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return errors.Join(err, j.cmd.Wait())
}

// BeJanitor returns unless this process was started by [StartJanitor] with that variable. Then it waits for the end of the
// other process, or for its Close, cleans up, and exits. word is "" after any other end than Close.
func BeJanitor(variable string, clean func(what, word string) error) {
	what := os.Getenv(variable)
	if what == "" {
		return
	}
	word, _ := io.ReadAll(os.Stdin)
	if err := clean(what, string(word)); err != nil {
		fmt.Fprintln(os.Stderr, "cleaning up:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
