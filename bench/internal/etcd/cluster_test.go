package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/internal/etcd"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
	"github.com/quorumlock/quorumlock/internal/poll"
)

// orphaned makes this program start a cluster, print an endpoint and the directory, and wait.
const orphaned = "QUORUMLOCK_BENCH_ETCD_ORPHAN"

func TestMain(m *testing.M) {
	switch {
	case etcd.IsKeeper():
		os.Exit(etcd.Keep())
	case os.Getenv(orphaned) != "":
		os.Exit(orphan())
	default:
		goleak.VerifyTestMain(m)
	}
}

func TestAClusterLocksAndLeavesNothing(t *testing.T) {
	c := start(t)
	if len(c.Endpoints) != 3 || !exists(c.Dir) || !strings.Contains(c.Data, "fsync") || !strings.Contains(c.Version, ".") {
		t.Errorf("%+v", c)
	}
	used, err := c.CPU()
	must(t, err)
	peer, err := peers.OpenEtcd(c.Endpoints)
	must(t, err)
	for range 20 {
		must(t, peer.Pair(t.Context(), "a name"))
	}
	must(t, peer.Close())
	if later, err := c.CPU(); err != nil || later <= used || used <= 0 {
		t.Errorf("processor time %v, later %v (%v)", used, later, err)
	}
	endpoint := c.Endpoints[0]
	must(t, c.Close())
	if answers(endpoint) {
		t.Errorf("%s answers after Close", endpoint)
	}
	if exists(c.Dir) {
		t.Errorf("left behind: %s", c.Dir)
	}
}

// A parent that is killed cannot clean up: the keeper does.
func TestMembersAndDataGoWithAKilledParent(t *testing.T) {
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skipf("SKIPPED: %v: %v", etcd.ErrNone, err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphaned+"=1")
	in, err := parent.StdinPipe() // it ends with its input, should the kill below fail
	must(t, err)
	defer in.Close()
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	line, readErr := bufio.NewReader(out).ReadString('\n')
	endpoint, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	answered := readErr == nil && answers(endpoint) && exists(dir)
	must(t, parent.Process.Kill())
	_ = parent.Wait() // "signal: killed"
	if !answered {
		t.Fatalf("no member at %q with data in %q while its parent lived (%v)", endpoint, dir, readErr)
	}
	if !poll.Until(time.Minute, func() bool { return !answers(endpoint) && !exists(dir) }) {
		t.Errorf("a member answers: %v; %s is left behind: %v", answers(endpoint), dir, exists(dir))
	}
}

func orphan() int {
	c, err := etcd.Start(context.Background(), 3)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Endpoints[0], c.Dir)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

func start(t *testing.T) *etcd.Cluster {
	t.Helper()
	c, err := etcd.Start(t.Context(), 3)
	if errors.Is(err, etcd.ErrNone) {
		t.Skipf("SKIPPED: %v", err)
	}
	must(t, err)
	return c
}

func answers(endpoint string) bool {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(endpoint + "/health")
	if err != nil {
		return false
	}
	reply.Body.Close()
	return true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
