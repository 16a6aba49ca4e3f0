package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// run starts the masters and measures the sections whose name contains only. Progress goes to log.
func run(ctx context.Context, s size, only string, log io.Writer) (r *report, err error) {
	fleet, err := redistest.StartReal(mastersRun)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	r = &report{began: time.Now(), servers: fmt.Sprintf("%d %s", mastersRun, fleet.Kind)}
	b := &bench{size: s, fleet: fleet, report: r, log: log}
	for _, section := range sections {
		if !strings.Contains(section.name, only) {
			continue
		}
		began := time.Now()
		if err := section.measure(b, ctx); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", section.name, err)
		}
		fmt.Fprintf(log, "%s: %v\n", section.name, time.Since(began).Round(100*time.Millisecond))
	}
	r.took = time.Since(r.began)
	return r, nil
}

// use prepares the masters for clients of the first n of them. The masters carry the list of
// masters that their clients had before, and let in no client with another one. No client of
// the library may be open.
func (b *bench) use(n int) error {
	if b.inUse == n {
		return nil
	}
	b.inUse = n
	for _, m := range b.fleet.Masters {
		if _, err := m.Do("FLUSHALL"); err != nil {
			return err
		}
	}
	return nil
}

// some returns the first n masters.
func (b *bench) some(n int) []*redistest.Master { return b.fleet.Masters[:n] }

func (b *bench) urls(n int) []string { return b.fleet.URLs()[:n] }
