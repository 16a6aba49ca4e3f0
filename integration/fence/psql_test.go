//go:build unix

package fence_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
)

// shellJob is docs/fencing.md's job of psql under quorumlock run, with the real commands.
type shellJob struct {
	environment []string
	dir         string
	line        string
}

// A job that will be stopped has a lease that outlasts a stall of the machine; the next one keeps
// its lock.
const (
	lateLease = 5 * time.Second
	nextLease = 30 * time.Second
)

// pausedPsql is on the path before psql: it waits for a line of input, and tells psql's exit code.
const pausedPsql = `#!/bin/sh
echo ready
read -r go || exit 1
%s "$@"
code=$?
echo "psql $code"
exit $code
`

// theCommand builds the command, once, in a directory that TestMain removes.
var theCommand = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "command-"); err != nil {
		return "", err
	}
	commandDir = dir
	out, err := exec.Command("go", "build", "-C", "../..", "-o", filepath.Join(dir, "quorumlock"), "./cmd/quorumlock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the command: %w: %s", err, out)
	}
	return dir, nil
})

var commandDir string

func newShellJob(t *testing.T, d *database, masters []string) shellJob {
	t.Helper()
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skipf("SKIPPED, needs psql: %v", err)
	}
	text, err := os.ReadFile("../../docs/fencing.md")
	must(t, err)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"stamp.sql": block(t, string(text), "sql", "\\gset"),
		"deposit.sql": fmt.Sprintf(`UPDATE accounts SET balance = balance + 10 WHERE id = %[1]d;
			INSERT INTO writes (account, token, old, new)
			SELECT id, :token, balance - 10, balance FROM accounts WHERE id = %[1]d;`, account),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	must(t, child.WriteProgram(filepath.Join(dir, "psql"), fmt.Sprintf(pausedPsql, psql)))
	command, err := theCommand()
	must(t, err)
	var schema string
	must(t, d.db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
	environment := append(os.Environ(), "PATH="+dir+":"+command+":"+os.Getenv("PATH"), "QUORUMLOCK_URLS="+strings.Join(masters, ","),
		"PGHOST="+postgres.Dir, "PGUSER=fence", "PGDATABASE=postgres", "PGOPTIONS=-c search_path="+schema)
	// The shell becomes the command, which the test can stop then.
	const flags = "exec quorumlock run --lease $LEASE --timeout 2s "
	return shellJob{environment, dir, strings.Replace(block(t, string(text), "sh", "$QUORUMLOCK_TOKEN"), "quorumlock run ", flags, 1)}
}

// block returns the document's block of code in a language that has the mark.
func block(t *testing.T, document, language, mark string) string {
	t.Helper()
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(document, -1) {
		if strings.Contains(found[1], mark) {
			return found[1]
		}
	}
	t.Fatalf("docs/fencing.md has no %s with %q", language, mark)
	return ""
}

// shell is a job that runs.
type shell struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors child.Output
}

// start starts the job, and returns when it has the lock: psql is about to run.
func (j shellJob) start(t *testing.T, lease time.Duration) *shell {
	t.Helper()
	s := &shell{t: t, cmd: exec.Command("sh", "-c", j.line)}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr, s.cmd.WaitDelay = j.dir, append(j.environment, "LEASE="+lease.String()), &s.errors, soon
	var err error
	s.in, err = s.cmd.StdinPipe()
	must(t, err)
	out, err := s.cmd.StdoutPipe()
	must(t, err)
	s.out = bufio.NewReader(s.errors.Tee(out))
	must(t, s.cmd.Start())
	t.Cleanup(func() {
		s.in.Close()
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	s.await("ready")
	return s
}

// await reads the job's output until a line begins with the word, and returns the line.
func (s *shell) await(word string) (line string) {
	s.t.Helper()
	must(s.t, child.Await(s.cmd, &s.errors, patience, "the job prints "+word, func() (err error) {
		for err == nil && !strings.HasPrefix(line, word) {
			line, err = s.out.ReadString('\n')
		}
		return err
	}))
	return strings.TrimSpace(line)
}

// psql lets psql run, and returns its exit code.
func (s *shell) psql() (code int) {
	s.t.Helper()
	_, err := io.WriteString(s.in, "go\n")
	must(s.t, err)
	_, err = fmt.Sscanf(s.await("psql "), "psql %d", &code)
	must(s.t, err)
	return code
}

// ended returns the exit code of quorumlock run.
func (s *shell) ended() int {
	s.t.Helper()
	err := child.Await(s.cmd, &s.errors, patience, "the job ends", func() error {
		err := s.cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil
		}
		return err
	})
	must(s.t, err)
	return s.cmd.ProcessState.ExitCode()
}

// A job whose quorumlock run is stopped outlives its lock, and runs psql when the next job is done: it
// is refused, and writes nothing. Without the stamp it writes.
func TestShellJobThatIsLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(line string) string
		refused bool
		code    int
	}{
		{"stamped", func(line string) string { return line }, true, 3},
		// The failed statement has ended the transaction, which no COMMIT brings back.
		{"without ON_ERROR_STOP", func(line string) string { return strings.Replace(line, "-v ON_ERROR_STOP=1", "", 1) }, true, 0},
		{"control: without the stamp", func(line string) string { return strings.Replace(line, "-f stamp.sql", "", 1) }, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := onPostgres("postgres", "read committed")(t)
			d.account(t, account)
			job := newShellJob(t, d, fleet(t, 3).URLs())
			changed := c.change(job.line)
			if changed == job.line && c.name != "stamped" {
				t.Fatalf("nothing to change in %s", job.line)
			}
			job.line = changed
			late := job.start(t, lateLease)
			must(t, late.cmd.Process.Signal(syscall.SIGSTOP))
			next := job.start(t, nextLease)
			if code := next.psql(); code != 0 {
				t.Fatalf("the next job's psql exits with %d; %v", code, &next.errors)
			}
			if code := next.ended(); code != 0 {
				t.Fatalf("the next job exits with %d; %v", code, &next.errors)
			}
			code := late.psql()
			must(t, late.cmd.Process.Signal(syscall.SIGCONT))
			if late.ended() == 0 {
				t.Error("the late job ends well")
			}
			balance, log := d.state(t, account)
			if want := map[bool]int{true: opening + 10, false: opening + 20}[c.refused]; balance != want || code != c.code {
				t.Errorf("balance %d, want %d; psql exits with %d, want %d: %v", balance, want, code, c.code, log)
			}
			said := strings.ReplaceAll(late.errors.String(), "INSERT 0 1\n", "") // psql prints it into the midst of its error
			if strings.Contains(said, "account:42 is fenced: token ") != c.refused {
				t.Errorf("the late job says: %s", said)
			}
			t.Logf("%s; %v", said, log)
		})
	}
}

// A job that runs without quorumlock run has no token: psql refuses the statement.
func TestShellJobWithoutAToken(t *testing.T) {
	t.Parallel()
	d := onPostgres("postgres", "read committed")(t)
	d.account(t, account)
	job := newShellJob(t, d, nil)
	_, alone, _ := strings.Cut(job.line, " -- ")
	job.line = "unset QUORUMLOCK_TOKEN; exec " + alone
	s := job.start(t, nextLease)
	if code := s.psql(); code != 3 || s.ended() != 3 {
		t.Errorf("psql exits with %d; %v", code, &s.errors)
	}
	if balance, log := d.state(t, account); balance != opening || len(log) > 0 {
		t.Errorf("balance %d: %v", balance, log)
	}
}
