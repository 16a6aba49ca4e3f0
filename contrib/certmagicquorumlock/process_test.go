package certmagicquorumlock_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// A copy of the test binary whose environment has a role plays it, and does not test.
const (
	roleVariable = "QUORUMLOCK_TEST_ROLE"
	rootVariable = "QUORUMLOCK_TEST_ROOT" // the file of the CA's own certificate
	caVariable   = "QUORUMLOCK_TEST_CA"
	urlsVariable = "QUORUMLOCK_TEST_URLS"
	dirVariable  = "QUORUMLOCK_TEST_DIR"
)

var roles = map[string]func() error{
	"pebble":   pebble,
	"locked":   func() error { return certify(true) },
	"unlocked": func() error { return certify(false) },
}

// lease is short, so that the next one goes on soon after a holder's death, and outlasts a stall.
const lease = 3 * time.Second

// certify is a server that starts. It writes "ready" and waits for a line on standard input, writes "waits" if
// another has the lock, and "serial" and the number of the certificate that it gets.
func certify(locked bool) error {
	var once sync.Once
	waits := func(_ context.Context, e quorum.AttemptEvent) {
		if errors.Is(e.Err, quorum.ErrHeld) {
			once.Do(func() { fmt.Println("waits") })
		}
	}
	locker, err := redlock.Open(strings.Split(os.Getenv(urlsVariable), ","),
		quorum.WithLease(lease), quorum.WithHooks(quorum.Hooks{Attempt: waits}),
		quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(10*time.Second)))
	if err != nil {
		return err
	}
	defer locker.Close()
	config, stop, err := server(locker, os.Getenv(dirVariable), nil)
	if err != nil {
		return err
	}
	defer stop()
	if !locked {
		config.Storage = unlocked{config.Storage}
	}
	root, err := os.ReadFile(os.Getenv(rootVariable))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root)
	config.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(config, certmagic.ACMEIssuer{
		CA: os.Getenv(caVariable), TrustedRoots: roots, DNS01Solver: believed{}, Agreed: true,
		Email: fmt.Sprintf("server-%d@example.com", os.Getpid()), // so that accounts are no reason to wait
	})}

	fmt.Println("ready")
	fmt.Scanln()
	go func() {
		io.Copy(io.Discard, os.Stdin) // the test has ended
		os.Exit(1)
	}()
	ctx := context.Background()
	if err := config.ObtainCertAsync(ctx, "www.example.com"); err != nil {
		return err
	}
	cert, err := config.CacheManagedCertificate(ctx, "www.example.com")
	if err != nil {
		return err
	}
	fmt.Printf("serial %x\n", cert.Leaf.SerialNumber.Bytes())
	return nil
}

// unlocked is a storage whose locks do nothing.
type unlocked struct{ certmagic.Storage }

func (unlocked) Lock(context.Context, string) error   { return nil }
func (unlocked) Unlock(context.Context, string) error { return nil }

// believed solves challenges for a CA that believes everybody.
type believed struct{}

func (believed) Present(context.Context, acme.Challenge) error { return nil }
func (believed) CleanUp(context.Context, acme.Challenge) error { return nil }

// world is a CA, masters, and the servers that are started.
type world struct {
	t     *testing.T
	env   []string
	ca    *process
	lines chan string         // of all processes
	heard map[string][]string // by their first words
}

// process is a child.
type process struct {
	*exec.Cmd
	in   io.WriteCloser
	said child.Output
}

func newWorld(t *testing.T) *world {
	masters, err := redistest.Start(3)
	must(t, err)
	t.Cleanup(func() { must(t, masters.Stop()) })
	t.Log("masters:", masters.Kind)
	w := &world{t: t, lines: make(chan string, 1000), heard: map[string][]string{}}
	w.env = append(os.Environ(), "PEBBLE_VA_ALWAYS_VALID=1", "PEBBLE_VA_NOSLEEP=1",
		rootVariable+"="+filepath.Join(t.TempDir(), "root.pem"),
		dirVariable+"="+t.TempDir(), urlsVariable+"="+strings.Join(masters.URLs(), ","))
	w.ca = w.start("pebble")
	w.await("url", 1)
	w.env = append(w.env, caVariable+"="+w.heard["url"][0])
	return w
}

// start starts a process, which ends with the test.
func (w *world) start(role string) *process {
	w.t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(w.env, roleVariable+"="+role)
	p.Stderr = &p.said
	in, err := p.StdinPipe()
	must(w.t, err)
	out, err := p.StdoutPipe()
	must(w.t, err)
	must(w.t, p.Start())
	p.in = in
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(p.said.Tee(out)); lines.Scan(); {
			w.lines <- lines.Text()
		}
	}()
	w.t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		<-read
		_ = p.Wait()
		if w.t.Failed() {
			w.t.Logf("%s: %v", role, &p.said)
		}
	})
	return p
}

// goOn lets a process go on that waits for a line.
func (w *world) goOn(all ...*process) {
	w.t.Helper()
	for _, p := range all {
		_, err := io.WriteString(p.in, "\n")
		must(w.t, err)
	}
}

// await waits until the processes have written n lines that begin with a word.
func (w *world) await(word string, n int) {
	w.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(w.heard[word]) < n {
		select {
		case line := <-w.lines:
			first, rest, _ := strings.Cut(line, " ")
			w.heard[first] = append(w.heard[first], rest)
		case <-late.C:
			w.t.Fatalf("%d of %d processes have written %q: %q", len(w.heard[word]), n, word, w.heard)
		}
	}
}

// issuedOnce fails the test unless the CA has issued one certificate, and all servers have that.
func (w *world) issuedOnce() {
	w.t.Helper()
	w.await("issued", 1)
	for _, serial := range w.heard["serial"] {
		if issued := w.heard["issued"]; len(issued) != 1 || serial != issued[0] {
			w.t.Errorf("a server has certificate %s; issued: %q", serial, issued)
		}
	}
}

// Three processes need a certificate at once. The order of one is held up until the others have met the lock.
func TestThreeProcessesOrderOnce(t *testing.T) {
	w := newWorld(t)
	servers := []*process{w.start("locked"), w.start("locked"), w.start("locked")}
	w.await("ready", 3)
	w.goOn(servers...)
	w.await("order", 1)
	w.await("waits", 2)
	w.goOn(w.ca)
	w.await("serial", 3)
	w.issuedOnce()
	if n := len(w.heard["order"]); n != 1 {
		t.Errorf("%d orders, want one", n)
	}
}

// The control: without locks each of them orders.
func TestWithoutTheLock(t *testing.T) {
	w := newWorld(t)
	servers := []*process{w.start("unlocked"), w.start("unlocked"), w.start("unlocked")}
	w.await("ready", 3)
	w.goOn(servers...)
	w.await("order", 3)
}

// A process is killed while its order is under way. The next one goes on when the lease ends.
func TestAKilledProcessIsFollowed(t *testing.T) {
	w := newWorld(t)
	first, second := w.start("locked"), w.start("locked")
	w.await("ready", 2)
	w.goOn(first)
	w.await("order", 1)
	w.goOn(second)
	w.await("waits", 1)
	must(t, first.Process.Kill())
	w.await("order", 2)
	w.goOn(w.ca, w.ca)
	w.await("serial", 1)
	w.issuedOnce()
}
