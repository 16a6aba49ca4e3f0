package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
)

// Where Go forbids SHA-1, the library locks, and the demo runs on real masters.
func TestWithoutSHA1(t *testing.T) {
	d := deploy(t, 3, 2*time.Second)
	begin := func(args ...string) *process {
		p := d.prepare()
		p.Args, p.Env = append(p.Args[:1], args...), append(p.Env, "GODEBUG=fips140=only")
		return p.begin(t)
	}
	begin("run", "-timeout", "10s", "-max-lease", "2s", "name", "--", "true").await(t, exitOK)
	begin("check", "-timeout", "10s", "-max-lease", "2s").await(t, exitOK)
	demo := begin("demo")
	if !poll.Until(2*time.Minute, func() bool { return strings.Contains(demo.out.String(), "ok     6 turns") }) {
		t.Errorf("the demo does not lock: %s%s", &demo.out, &demo.errs)
	}
	demo.Process.Signal(os.Interrupt)
	<-demo.exited
}
