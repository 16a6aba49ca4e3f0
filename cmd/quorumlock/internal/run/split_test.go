//go:build unix

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The crontab line on three machines, each next to one of the masters and 10 ms from the other two: at each tick one runs
// the job, and the others hear who has the lock.
func TestOneOfSimultaneousRunsHasTheLock(t *testing.T) {
	t.Parallel()
	const ticks = 10
	d := clitest.Deploy(t, 3, 30*time.Second)
	places := make([]string, len(d.Masters))
	for at := range places {
		var urls []string
		for i, m := range d.Masters {
			addr := m.Addr()
			if i != at {
				far, err := forward.New(addr)
				testkit.Must(t, err)
				t.Cleanup(far.Close)
				far.DelayRequests(10*time.Millisecond, 0)
				addr = far.Addr()
			}
			urls = append(urls, fmt.Sprintf("redis://%s?name=%s", addr, m.Addr()))
		}
		places[at] = strings.Join(urls, ",")
	}
	end := filepath.Join(t.TempDir(), "end")
	for tick := range ticks {
		name := fmt.Sprint("tick ", tick)
		var all []*clitest.Process
		for _, urls := range places {
			p := d.Prepare("-n", name, "--", "sh", "-c", "until [ -e '"+end+"' ]; do sleep 0.01; done")
			p.Env = append(p.Env, masters.URLsVariable+"="+urls)
			all = append(all, p)
		}
		for _, p := range all {
			p.Begin(t)
		}
		running := func() (those []*clitest.Process) {
			for _, p := range all {
				if !p.HasExited() {
					those = append(those, p)
				}
			}
			return those
		}
		clitest.Eventually(t, "one of them with the lock", func() bool { return len(running()) < 2 })
		testkit.Must(t, os.WriteFile(end, nil, 0o600))
		ran := 0
		for _, p := range all {
			<-p.Exited
			if p.ProcessState.ExitCode() == cli.ExitOK {
				ran++
				continue
			}
			p.Ends(t, cli.ExitHeld, "held by ")
		}
		testkit.Check(t, ran == 1, "%s: %d of %d ran", name, ran, len(all))
		testkit.Must(t, os.Remove(end))
	}
}
