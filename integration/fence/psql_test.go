//go:build unix

package fence_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// block returns the block of docs/fencing.md's code in a language that has the mark.
func block(t *testing.T, language, mark string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```" + language + "\n(.*?)```")
	for _, found := range blocks.FindAllStringSubmatch(testkit.Read(t, "../../docs/fencing.md"), -1) {
		if strings.Contains(found[1], mark) {
			return found[1]
		}
	}
	t.Fatalf("docs/fencing.md has no %s with %q", language, mark)
	return ""
}

// The job of docs/fencing.md, as quorumlock run starts it: one that is late is refused, and writes nothing; nor
// does one without a token. Without the stamp the late one writes.
func TestShellJobThatIsLate(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skipf("SKIPPED, needs psql: %v", err)
	}
	_, job, _ := strings.Cut(block(t, "sh", "$QUORUMLOCK_TOKEN"), " -- ")
	for _, c := range []struct {
		name, without, late, says string
		code, balance             int
	}{
		{"stamped", "", "41", "account:42 is fenced: token 41 is below 42", 3, opening + 10},
		// The failed statement has ended the transaction, which no COMMIT brings back.
		{"without ON_ERROR_STOP", "-v ON_ERROR_STOP=1", "41", "account:42 is fenced: token 41 is below 42", 0, opening + 10},
		{"without a token", "", "", "syntax error", 3, opening + 10},
		{"control: without the stamp", "-f stamp.sql", "41", "", 0, opening + 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, dir := onPostgres("postgres", "read committed")(t), t.TempDir()
			d.account(t, account)
			for name, content := range map[string]string{
				"stamp.sql": block(t, "sql", "\\gset"),
				"deposit.sql": fmt.Sprintf(`UPDATE accounts SET balance = balance + 10 WHERE id = %[1]d;
					INSERT INTO writes (account, token, old, new)
					SELECT id, :token, balance - 10, balance FROM accounts WHERE id = %[1]d;`, account),
			} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			var schema string
			must(t, d.db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
			run := func(token string) (code int, says string) {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(job, c.without, "", 1))
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "QUORUMLOCK_TOKEN="+token, "PGHOST="+postgres.Dir, "PGUSER=fence",
					"PGDATABASE=postgres", "PGOPTIONS=-c search_path="+schema)
				return testkit.Exit(t, cmd)
			}
			code, says := run("42")
			testkit.Require(t, code == 0, "the next job exits with %d: %s", code, says)
			code, says = run(c.late)
			balance, log := d.state(t, account)
			testkit.Check(t, balance == c.balance && code == c.code && strings.Contains(says, c.says),
				"balance %d, want %d; psql exits with %d, want %d: %s; %v", balance, c.balance, code, c.code, says, log)
		})
	}
}
