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

// They define the completion, and complete the words.
const (
	completeInBash = `
source <(quorumlock completion bash) || exit
COMP_WORDS=(quorumlock "$@") COMP_CWORD=$#
__quorumlock_complete
printf '%s ' "${COMPREPLY[@]}"`
	completeInFish = `quorumlock completion fish | source; complete -C "quorumlock $argv" | string replace -r '\t.*' ''; true`
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash: ", err)
	}
	bin := t.TempDir()
	testkit.Must(t, os.Symlink(os.Args[0], filepath.Join(bin, "quorumlock")))
	for line, want := range map[string]string{ // TestCompletionInARealShell has the lines of which nothing is carried out
		"st": "status", "c": "check completion", "run --max-": "--max-hold --max-lease", "run -min": "--min-hold",
		"unlock --y": "--yes", "members ": "abort add commit remove show", "run x -- touch x ": "", "unlock -yes x ": "",
	} {
		got := completed(t, bash, line, bin)
		testkit.Check(t, strings.Join(got, " ") == want, "%q: %q, want %q", line, got, want)
	}
	said, _ := clitest.Command(t, cli.ExitOK, "run", "-", "--generate-shell-completion")
	testkit.Check(t, !strings.Contains(said, "`") && strings.Contains(said, "FILE"), "what shells show next to the flags: %q", said)
	for _, shell := range []string{"bash", "zsh", "fish", "pwsh"} {
		script, _ := clitest.Command(t, cli.ExitOK, "completion", shell)
		clitest.Contains(t, script, "quorumlock", "--generate-shell-completion")
		testkit.Check(t, !regexp.MustCompile(`(?i)\b(eval|invoke-expression|iex)\b`).MatchString(script),
			"the script for %s evaluates what it completes:\n%s", shell, script)
	}
	_, stderr := clitest.Command(t, cli.ExitUsage, "completion", "tcsh")
	testkit.Check(t, strings.Count(stderr, "\n") == 1, "%q", stderr)
}

// No completion comes twice: not a flag, and not a command that is in two directories of the path, or
// in this one.
func TestNoCompletionComesTwice(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "fish"} {
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
				offers := completed(t, path, line, bin, dirs...)
				testkit.Check(t, slices.Contains(offers, want) && len(slices.Compact(slices.Clone(offers))) >= len(offers),
					"%q: not each once, and %s among them: %q", line, want, offers)
			}
		})
	}
}

// completed returns what a shell offers for a line, sorted, with bin and those directories in its path, but
// for the last: there the shell is.
func completed(t *testing.T, shell, line, bin string, dirs ...string) []string {
	t.Helper()
	cmd := exec.Command(shell, append([]string{"--norc", "-c", completeInBash, "bash"}, strings.Split(line, " ")...)...)
	if filepath.Base(shell) == "fish" {
		cmd = exec.Command(shell, "--no-config", "-c", completeInFish, "--", line)
	}
	path := append([]string{bin}, dirs...)
	cmd.Dir = path[len(path)-1]
	cmd.Env = append(os.Environ(), clitest.Variable+"=1", "GORACE=atexit_sleep_ms=0", "HOME="+bin,
		"PATH="+strings.Join(append(path[:max(1, len(dirs))], os.Getenv("PATH")), ":"), masters.URLsVariable+"=redis://127.0.0.1:1")
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return slices.Sorted(slices.Values(strings.Fields(string(said))))
}
