//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// completeInBash defines the completion, and completes the words.
const completeInBash = `
source <(quorumlock completion bash) || exit
COMP_WORDS=(quorumlock "$@") COMP_CWORD=$#
__quorumlock_complete
printf '%s ' "${COMPREPLY[@]}"`

func TestCompletion(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash: ", err)
	}
	bin := t.TempDir()
	testkit.Must(t, os.Symlink(os.Args[0], filepath.Join(bin, "quorumlock")))
	for want, line := range map[string][]string{
		"status":                       {"st"},
		"check completion":             {"c"},
		"--max-hold --max-lease":       {"run", "--max-"},
		"--min-hold":                   {"run", "-min"},
		"--yes":                        {"unlock", "--y"},
		"abort add commit remove show": {"members", ""},
	} {
		got := completed(t, bash, bin, line...)
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	// TestCompletionInARealShell has the lines of which nothing is carried out.
	for _, line := range [][]string{{"run", "x", "--", "touch", "x", ""}, {"unlock", "-yes", "x", ""}} {
		if got := completed(t, bash, bin, line...); len(got) > 0 {
			t.Errorf("%q: %q", line, got)
		}
	}
	if said, _ := clitest.Command(t, cli.ExitOK, "run", "-", "--generate-shell-completion"); strings.Contains(said, "`") || !strings.Contains(said, "FILE") {
		t.Errorf("what shells show next to the flags: %q", said)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "pwsh"} {
		script, _ := clitest.Command(t, cli.ExitOK, "completion", shell)
		clitest.Contains(t, script, "quorumlock", "--generate-shell-completion")
		if regexp.MustCompile(`(?i)\b(eval|invoke-expression|iex)\b`).MatchString(script) {
			t.Errorf("the script for %s evaluates what it completes:\n%s", shell, script)
		}
	}
	_, stderr := clitest.Command(t, cli.ExitUsage, "completion", "tcsh")
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("%q", stderr)
	}
}

// No completion comes twice: not a flag, and not a command that is in two directories of the path, or
// in this one.
func TestNoCompletionComesTwice(t *testing.T) {
	t.Parallel()
	for shell, complete := range map[string]string{
		"bash": completeInBash,
		"fish": `quorumlock completion fish | source; complete -C "quorumlock $argv" | string replace -r '\t.*' ''; true`,
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("there is no %s: %v", shell, err)
			}
			bin, dirs := t.TempDir(), []string{t.TempDir(), t.TempDir(), t.TempDir()}
			testkit.Must(t, os.Symlink(os.Args[0], filepath.Join(bin, "quorumlock")))
			for _, dir := range dirs {
				testkit.Must(t, os.Symlink("/bin/true", filepath.Join(dir, "in-three-places")))
			}
			for line, want := range map[string]string{
				"": "status", "run -": "--lease", "members ": "show", "completion ": "zsh", "run x -- in-three": "in-three-places",
			} {
				words := strings.Split(line, " ")
				args := append([]string{"--norc", "-c", complete, "bash"}, words...)
				if shell == "fish" {
					args = []string{"--no-config", "-c", complete, "--", line}
				}
				cmd := exec.Command(path, args...)
				cmd.Dir = dirs[2]
				cmd.Env = append(os.Environ(), clitest.Variable+"=1", "GORACE=atexit_sleep_ms=0", "HOME="+bin,
					"PATH="+strings.Join([]string{bin, dirs[0], dirs[1], os.Getenv("PATH")}, ":"))
				said, err := cmd.Output()
				offers := strings.Fields(string(said))
				if err != nil || !slices.Contains(offers, want) {
					t.Fatalf("%q: %v, %q", line, err, offers)
				}
				slices.Sort(offers)
				for i := range offers {
					if i > 0 && offers[i] == offers[i-1] {
						t.Errorf("%q: %s comes twice", line, offers[i])
					}
				}
			}
		})
	}
}

func completed(t *testing.T, bash, bin string, line ...string) []string {
	t.Helper()
	cmd := exec.Command(bash, append([]string{"--norc", "-c", completeInBash, "bash"}, line...)...)
	cmd.Env = append(os.Environ(), clitest.Variable+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+bin+":"+os.Getenv("PATH"),
		masters.URLsVariable+"=redis://127.0.0.1:1")
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return strings.Fields(string(said))
}
