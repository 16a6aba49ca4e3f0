package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/poll"
)

// Where Go forbids SHA-1, the library locks, and the demo runs on real masters.
func TestWithoutSHA1(t *testing.T) {
	d := clitest.Deploy(t, 3, 2*time.Second)
	begin := func(args ...string) *clitest.Process {
		p := d.Prepare()
		p.Args, p.Env = append(p.Args[:1], args...), append(p.Env, "GODEBUG=fips140=only")
		return p.Begin(t)
	}
	begin("run", "-timeout", "10s", "-max-lease", "2s", "name", "--", "true").Await(t, cli.ExitOK)
	begin("check", "-timeout", "10s", "-max-lease", "2s").Await(t, cli.ExitOK)
	demo := begin("demo")
	if !poll.Until(2*time.Minute, func() bool { return strings.Contains(demo.Out.String(), "ok     6 turns") }) {
		t.Errorf("the demo does not lock: %s%s", &demo.Out, &demo.Errs)
	}
	demo.Process.Signal(os.Interrupt)
	<-demo.Exited
}
