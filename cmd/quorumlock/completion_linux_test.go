package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"golang.org/x/sys/unix"
)

// ctrlU drops the line that is being edited. Ctrl-C would also drop keys that the shell has not read.
const ctrlU = "\x15"

// interactive is how each shell is started without the user's files, and made to complete. Zsh asks before it
// lists more than LISTMAX, and takes the next key for the answer.
var interactive = map[string]struct {
	args  []string
	setUp string
}{
	"bash": {[]string{"--norc", "--noprofile", "-i"}, "source <(quorumlock completion bash)"},
	"zsh":  {[]string{"-f", "-i"}, "LISTMAX=100000; autoload -Uz compinit; compinit -u -D; source <(quorumlock completion zsh)"},
	"fish": {[]string{"--no-config", "--private"},
		"set -g fish_autosuggestion_enabled 0; quorumlock completion fish | source"},
}

// shellOnTerminal starts a shell in an empty directory, with quorumlock on its path.
func shellOnTerminal(t *testing.T, shell string) (c *typist, dir string) {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("there is no %s: %v", shell, err)
	}
	bin, dir, home := t.TempDir(), t.TempDir(), t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>'%s/.calls'\nexec '%s' \"$@\"\n", dir, os.Args[0])
	testkit.Must(t, child.WriteProgram(filepath.Join(bin, "quorumlock"), wrapper))
	testkit.Must(t, os.Symlink("/bin/true", filepath.Join(bin, "nothing-at-all")))
	p := clitest.NewProcess(path, interactive[shell].args...)
	p.Dir = dir
	p.Env = append(p.Env, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "TERM=dumb", "PS1=$ ",
		masters.URLsVariable+"=redis://127.0.0.1:1", "INPUTRC=/dev/null", "HISTFILE=", "TMPDIR="+home, "XDG_RUNTIME_DIR="+home)
	c = &typist{Console: p.OnTerminal(t)}
	testkit.Must(t, unix.IoctlSetWinsize(c.Terminal, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 250}))
	c.says(t, interactive[shell].setUp)
	return c, dir
}

type typist struct {
	*clitest.Console
	asked int // how many lines it was asked to carry out
}

// says has the shell carry out a line, and waits until it has.
func (c *typist) says(t *testing.T, line string) {
	t.Helper()
	c.asked++
	c.Press(t, fmt.Sprintf("%s\nprintf 'done %%s.\\n' %d\n", line, c.asked)) // the screen also shows what is typed
	c.AwaitOutput(t, fmt.Sprintf("done %d.\n", c.asked))
	clitest.Eventually(t, "the shell reads keys, not lines", func() bool {
		mode, err := unix.IoctlGetTermios(c.Terminal, unix.TCGETS)
		return err == nil && mode.Lflag&unix.ICANON == 0
	})
}

// A shell that completes a line carries out nothing of it.
func TestCompletionInARealShell(t *testing.T) {
	for shell := range interactive {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			c, dir := shellOnTerminal(t, shell)
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "kept"), []byte("content"), 0o600))
			for _, line := range []string{
				"quorumlock run x -- echo hi > kept ",
				"quorumlock run x -- echo hi >kept -",
				"quorumlock run x -- echo hi > kept",
				"quorumlock status > kept -",
				"quorumlock run $(touch pwned) -",
				"quorumlock run $(touch pwned) ",
				"quorumlock run `touch pwned` -",
				"quorumlock run \"$(touch pwned)\" -- ec",
				"quorumlock run x -- touch pwned; ",
				"quorumlock run 'x; touch pwned' -",
				"quorumlock run x\\;touch\\ pwned -",
				"quorumlock run 'x' && touch pwned -",
				"quorumlock run <(touch pwned) -",
				"quorumlock run x -- touch pwned -",
				"quorumlock run -n x -- touch pwned --generate-shell-completion",
				"quorumlock unlock -yes '$(touch pwned)' \"`touch pwned`\" -",
			} {
				if shell == "fish" && strings.Contains(line, "`") {
					line = strings.NewReplacer("$(", "(", "`touch pwned`", "(touch pwned)").Replace(line)
				}
				c.Press(t, line+"\t")
				c.says(t, ctrlU)
			}
			testkit.Equal(t, testkit.Read(t, filepath.Join(dir, "kept")), "content", "the file that no line writes")
			_, err := os.Stat(filepath.Join(dir, "pwned"))
			testkit.Check(t, err != nil, "a command was run: %q", &c.Out)

			// And it does complete, nothing twice: commands, flags, after -- the name of a command, and then of a file.
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "an-odd-file"), nil, 0o600))
			if shell == "zsh" { // it lists on a terminal only
				testkit.Must(t, os.Symlink("/bin/true", filepath.Join(dir, "nothing-at-all")))
				before := len(c.Out.String())
				c.Press(t, "quorumlock run x -- nothing-at\x04")
				c.says(t, ctrlU)
				n := strings.Count(c.Out.String()[before:], "nothing-at-all")
				testkit.Check(t, n == 1, "it lists a command of the path and of the directory %d times: %q", n, &c.Out)
			}
			for line, want := range map[string]string{
				"quorumlock vers\t":                                      "version",
				"quorumlock run --min-\t 1ms x -- true":                  "run --min-hold 1ms x -- true",
				"quorumlock completion x -- nothing-at\t an-odd\t":       "completion x -- nothing-at-all an-odd-file",
				"quorumlock run -w 1ms -urls-file an-odd\t x -- nothing": "run -w 1ms -urls-file an-odd-file x -- nothing",
			} {
				c.says(t, line)
				calls, err := os.ReadFile(filepath.Join(dir, ".calls"))
				testkit.Check(t, err == nil && strings.Contains(string(calls), want+"\n"),
					"%q was not completed to %q: %v, calls:\n%s\nscreen: %q", line, want, err, calls, &c.Out)
			}
		})
	}
}
