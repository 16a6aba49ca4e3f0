package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

// rotation returns the two steps of operations.md: with an aclfile, and otherwise.
func rotation(t *testing.T, aclfile bool) (steps [][]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Passwords that rotate\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for block := range strings.SplitSeq(section, "\n\n") {
		var step []string
		for line := range strings.Lines(block) {
			if line, isCommand := strings.CutPrefix(strings.TrimSpace(line), "ACL "); isCommand {
				line, other, _ := strings.Cut("ACL "+line, "#")
				if _, of, found := strings.Cut(other, ": "); found && !aclfile {
					line = of
				}
				step = append(step, line)
			}
		}
		if len(step) > 0 {
			steps = append(steps, step)
		}
	}
	if len(steps) != 2 || len(steps[0]) != 2 || len(steps[1]) != 2 {
		t.Fatalf("the page has the steps %q", steps)
	}
	return steps
}

// The page's lines rotate a password so that restarts keep it, wherever the masters have their users.
func TestPasswordsThatRotate(t *testing.T) {
	t.Parallel()
	redistest.Need(t, redistest.ACLChannels) // the recipe's users
	for where, aclfile := range map[string]bool{"aclfile": true, "redis.conf": false} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			users := strings.Join(append([]string{"user", "app", "on"}, recipeRules(t, "old")...), " ") + " ~*\n"
			f := &redistest.Fleet{}
			for range 3 {
				path := filepath.Join(t.TempDir(), where)
				must(t, os.WriteFile(path, []byte(users), 0o600))
				args := []string{path}
				if aclfile {
					args = []string{"--aclfile", path}
				}
				one, err := redistest.StartReal(1, args...)
				must(t, err)
				t.Cleanup(func() { must(t, one.Stop()) })
				f.Masters = append(f.Masters, one.Masters...)
			}
			with := func(password string) (urls addresses) {
				for _, m := range f.Masters {
					urls = append(urls, fmt.Sprintf("redis://app:%s@%s", password, m.Addr()))
				}
				return urls
			}
			works := func(password string) {
				t.Helper()
				unlock(t, lock(t, open(t, with(password), redlock.Open), "name"))
			}
			works("old")
			for i, step := range rotation(t, aclfile) {
				for _, m := range f.Masters {
					for _, line := range step {
						var args []any
						for word := range strings.FieldsSeq(line) {
							args = append(args, word)
						}
						do(t, m, args...)
					}
					restart(t, m)
				}
				works("new")
				if i == 0 {
					works("old") // clients move one after another
				}
			}
			_, err := open(t, with("old"), redlock.Open).Lock(short(t), "name")
			if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("the old password: %v", err)
			}
		})
	}
}
