//go:build unix

// Package command_test runs the quorumlock command as its users do, in a process of its own, by the scripts of testdata.
// It has the behaviour that a line of text can say. Signals that race, terminals, and what is not exported have tests in
// Go, next to the command.
//
// A script is a file in testdata, of the language of testscript (go doc github.com/rogpeppe/go-internal/testscript) with
// the verbs of this package: each is a method whose comment begins with its line.
//
//	masters a b c # processes, whose URLs are $a, $b, $c, and in QUORUMLOCK_URLS and the file urls
//	quorumlock admit -yes -urls-file urls
//	hold job # another process has the lock
//	says 75 'held by sh on ' : run -n job -- true
//
// Run one with go test -run TestScripts/NAME -v, which prints what each line printed; -update writes what cmp compares.
package command_test

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// bound is how long a script waits for anything: far longer than a busy machine needs.
const bound = 40 * time.Second

var (
	update = flag.Bool("update", false, "write into the scripts what the commands print where cmp compares it")
	bin    string // a directory with the command
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	flag.Parse()
	var err error
	if bin, err = build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(goleak.Find(), child.NoneLeft(), os.RemoveAll(bin)); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// build builds the command without the race detector, which more than doubled the processor time of these tests. The
// tests of cmd/quorumlock run the same code with it.
func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "quorumlock-command-"); err != nil {
		return "", err
	}
	args := []string{"build", "-C", "../..", "-ldflags=-s", "-race=false", "-o", filepath.Join(dir, "quorumlock"), "./cmd/quorumlock"}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
}

func TestScripts(t *testing.T) { run(t, testscript.Params{Dir: "testdata"}) }

// run runs scripts, each in a world of its own.
func run(t *testing.T, p testscript.Params) {
	t.Helper()
	p.UpdateScripts, p.RequireUniqueNames, p.Condition = *update, true, condition
	p.Setup = func(env *testscript.Env) error {
		env.Values[worldKey{}] = &world{t: env.T().(testing.TB), masters: map[string]*redistest.Master{}, jobs: map[string]*job{}}
		env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
		env.Setenv("secret", secret)
		return nil
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){}
	for name, verb := range verbs {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg && name != "until" {
				ts.Fatalf("%s knows no !", name)
			}
			w := ts.Value(worldKey{}).(*world)
			w.TestScript, w.neg = ts, neg
			verb(w, args)
		}
	}
	testscript.Run(t, p)
}

// condition knows [root], and the features that the servers may lack.
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Getuid() == 0, nil
	case "tls":
		return redistest.Has(redistest.TLS), nil
	case "channels":
		return redistest.Has(redistest.ACLChannels), nil
	}
	return false, fmt.Errorf("no such condition: %s", name)
}
