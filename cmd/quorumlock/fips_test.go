package main

import (
	"testing"
	"time"
)

// Where Go forbids SHA-1, the library locks, and the demo runs on real masters.
func TestWithoutSHA1(t *testing.T) {
	t.Parallel()
	d := deploy(t, 3, 2*time.Second)
	for _, args := range [][]string{{"run", "-timeout", "10s", "-max-lease", "2s", "name", "--", "true"}, {"check", "-timeout", "10s", "-max-lease", "2s"}, {"demo"}} {
		t.Run(args[0], func(t *testing.T) {
			p := d.prepare()
			p.Args, p.Env = append(p.Args[:1], args...), append(p.Env, "GODEBUG=fips140=only")
			p.begin(t).await(t, exitOK)
		})
	}
}
