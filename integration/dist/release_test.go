package dist_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

const root = "../.."

// What make release tags is what users get: each module, which packaging/release.sh checks, and the command. A program
// with the root and one with a module of contrib/ run. The go command takes them from the repository's tags, and all else
// from the module cache.
func TestRelease(t *testing.T) {
	const adapter = "github.com/quorumlock/quorumlock/contrib/goredisquorumlock"
	download := exec.CommandContext(t.Context(), "sh", "-ec", "for module in contrib/* integration bench; do go -C $module mod download; done")
	download.Dir = root
	if out, err := download.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, needs what the modules require in the module cache, or a network: %v\n%s", err, out)
	}
	out := testkit.Got(exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output())(t)
	cache := strings.TrimSpace(string(out))
	repository, cacheOfUser, bin := t.TempDir(), t.TempDir(), t.TempDir()
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "GOMODCACHE="+cacheOfUser, "GOBIN="+bin,
		"GOPROXY=file://"+cache+"/cache/download", "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
		"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	sh := func(dir, script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		testkit.Require(t, err == nil, "%s: %v\n%s", script, err, out)
		return string(out)
	}
	sh(root, "git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "+repository)
	said := sh(repository, "git init -q && git add -A && git commit -qm all && GOMODCACHE="+cache+" sh packaging/release.sh 0.1.0")
	changed := sh(repository, "git show v0.1.0 -- CHANGELOG.md")
	testkit.Check(t, strings.Contains(changed, "\n+## 0.1.0, 20"), "CHANGELOG.md: %s", changed)
	readme := sh(repository, "git show v0.1.0:README.md")
	testkit.Check(t, !strings.Contains(readme, "tagged") && strings.Contains(readme, "## Guarantees"), "the README of a release: %s", readme)
	documents := sh(repository, "git show v0.1.0:docs/usage.md v0.1.0:docs/operations.md")
	testkit.Check(t, !strings.Contains(documents, "<!--untagged-->"), "the documents of a release: %s", documents)
	_, recipe, found := strings.Cut(said, "gets it by these lines:\n")
	testkit.Check(t, found, "make release says no recipe: %s", said)
	recipe, _, _ = strings.Cut(recipe, "  go get ")

	for what, program := range map[string]string{
		"github.com/quorumlock/quorumlock/redlock": `_, err := used.Open([]string{"redis://a"}); fmt.Print(err == nil)`,
		adapter: `_, err := used.Open(&redis.Options{Addr: "a:6379"}); fmt.Print(err == nil)`,
	} {
		dir, imports := t.TempDir(), "import used \""+what+"\"\nimport \"fmt\"\n"
		if what == adapter {
			imports += "import \"github.com/redis/go-redis/v9\"\n"
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"+imports+"func main() { "+program+" }\n"), 0o600))
		got := sh(dir, recipe+"go mod init example.com/user 2>&1 && go get "+what+"@v0.1.0 2>&1 && go build -o user . && ./user 2>/dev/null")
		testkit.Check(t, strings.HasSuffix(got, "true"), "a program with %s: %s", what, got)
	}
	got := sh(bin, recipe+"go install github.com/quorumlock/quorumlock/cmd/quorumlock@v0.1.0 && ./quorumlock version")
	testkit.Check(t, strings.Contains(got, "v0.1.0"), "the command is %s", got)
}
