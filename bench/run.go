package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// mastersRun is the number of redis-server processes. A test of fewer masters uses the first ones.
const mastersRun = 5

// bench is the state that the tests share.
type bench struct {
	size
	fleet *redistest.Fleet
	log   io.Writer
	dir   string   // temporary
	built []string // see programs
	etcd  string   // version and data, if it ran
}

// run starts the masters and runs the tests whose name contains only. Progress goes to log.
func run(ctx context.Context, s size, only string, log io.Writer) (r *report, err error) {
	fleet, err := redistest.StartReal(mastersRun)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	dir, err := os.MkdirTemp("", "quorumlock-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r = &report{began: time.Now(), load: loadAverage(), servers: fmt.Sprintf("%d %s", mastersRun, fleet.Kind),
		results: results{}, profiles: map[place]string{}, size: s}
	b := &bench{size: s, fleet: fleet, log: log, dir: dir}
	tests := slices.DeleteFunc(s.tests(), func(t test) bool { return !strings.Contains(t.name, only) })
	for _, t := range tests {
		began := time.Now()
		for _, n := range t.masters {
			if r.results[place{t.name, n}], err = t.at(ctx, b, n); err != nil {
				return nil, fmt.Errorf("bench: %s, N=%d: %w", t.name, n, err)
			}
			if skipped := r.results[place{t.name, n}].skipped; skipped != "" {
				fmt.Fprintf(log, "%s, N=%d: skipped: %s\n", t.name, n, skipped)
			}
		}
		fmt.Fprintf(log, "%s: %v\n", t.name, time.Since(began).Round(100*time.Millisecond))
	}
	if !s.budgetsOnly {
		if err := b.profileMissed(ctx, tests, r); err != nil {
			return nil, err
		}
	}
	r.took, r.etcd = time.Since(r.began), b.etcd
	return r, nil
}

// at runs the test on masters that no client has used: they carry the list of masters of their
// clients, and accept no client with another one. A test that fails, on a machine that stood still,
// runs once more, and else has no figures: the others are worth the run.
func (t test) at(ctx context.Context, b *bench, n int) (o *outcome, err error) {
	for range 2 {
		if err = b.flush(); err == nil {
			o, err = t.measure(b, ctx, n)
		}
		if err == nil || ctx.Err() != nil {
			return o, err
		}
		fmt.Fprintf(b.log, "%s, N=%d: %v\n", t.name, n, err)
	}
	o = &outcome{}
	o.tell("not measured: %v", err)
	return o, nil
}

// flush empties the masters. No client of the library may be open.
func (b *bench) flush() error {
	var errs []error
	for _, m := range b.fleet.Masters {
		_, err := m.Do("FLUSHALL")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// some returns the first n masters.
func (b *bench) some(n int) []*redistest.Master { return b.fleet.Masters[:n] }

func (b *bench) urls(n int) []string { return b.fleet.URLs()[:n] }
