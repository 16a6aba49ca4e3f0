// Command flakes runs tests again and again on a machine that it keeps busy, and prints which of
// them failed, how often, and how the first failure looked:
//
//	go run ./internal/flakes -for 20m ./node ./quorum ./integration
//
// Each argument is the directory of a package, of any module. make flakes runs it.
//
// The files, each of which uses only those above it: result.go, table.go, hogs.go, binary.go,
// main.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	bound  time.Duration // no run starts after it
	runs   int           // of each package at most; 0 for as many as start in time
	hogs   int
	jobs   int    // binaries that run at one time, of one package too
	race   bool   // builds with the race detector
	filter string // of tests, as in go test -run
}

func main() {
	s := settings{}
	flag.DurationVar(&s.bound, "for", time.Hour, "start no run after this time")
	flag.IntVar(&s.runs, "runs", 0, "runs of each package at most; 0 for as many as start in time")
	flag.IntVar(&s.hogs, "hogs", 2*runtime.NumCPU(), "processes that keep a core busy")
	flag.IntVar(&s.jobs, "jobs", 6, "test binaries that run at one time; several may be of one package")
	flag.BoolVar(&s.race, "race", true, "build with the race detector")
	flag.StringVar(&s.filter, "run", "", "only the tests that match, as in go test -run")
	hog := flag.Bool("hog", false, "be a hog")
	flag.Parse()
	if *hog {
		beHog()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	failed, err := run(ctx, s, flag.Args())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "flakes:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}

// check refuses settings with which nothing would run.
func (s *settings) check(dirs []string) error {
	if _, err := regexp.Compile(s.filter); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	switch {
	case len(dirs) == 0:
		return errors.New("name the directories of the packages")
	case s.bound <= 0:
		return fmt.Errorf("-for %v: want more than 0", s.bound)
	case s.runs < 0:
		return fmt.Errorf("-runs %d: want 0 or more", s.runs)
	case s.hogs < 0:
		return fmt.Errorf("-hogs %d: want 0 or more", s.hogs)
	case s.jobs < 1:
		return fmt.Errorf("-jobs %d: want 1 or more", s.jobs)
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%q is no directory; patterns are not expanded, and flags come first", dir)
		}
	}
	return nil
}

// run builds the tests of the packages, runs them, and prints the table. It reports whether any
// failed.
func run(ctx context.Context, s settings, dirs []string) (failed bool, err error) {
	if err := s.check(dirs); err != nil {
		return false, err
	}
	bin, err := os.MkdirTemp("", "flakes")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(bin)
	var binaries []*binary
	for i, dir := range dirs {
		fmt.Fprintf(os.Stderr, "building the tests of %s\n", dir)
		b, err := build(ctx, dir, fmt.Sprintf("%s/%d.test", bin, i), s.race)
		if err != nil {
			return false, err
		}
		binaries = append(binaries, b)
	}

	stopHogs, err := startHogs(s.hogs)
	if err != nil {
		return false, err
	}
	defer stopHogs()
	began := time.Now()
	t := &table{}
	runs := make(chan *binary)
	var workers sync.WaitGroup
	for range s.jobs {
		workers.Go(func() {
			for b := range runs {
				r := b.run(ctx, s.filter)
				if ctx.Err() == nil { // a run that was interrupted tells nothing
					t.add(r)
					fmt.Fprintf(os.Stderr, "%v %s: %v, %d failed %v\n", time.Since(began).Round(time.Second), b.dir,
						r.took.Round(100*time.Millisecond), len(r.failures), r.names())
					for _, f := range r.failures { // at once: the table may be an hour away
						fmt.Fprintf(os.Stderr, "--- %s %s -test.shuffle=%s\n%s", b.dir, f.test, r.seed, f.text)
					}
				}
			}
		})
	}
	// Packages take turns, so that each has had runs when the time is over. Runs of one package may meet: the
	// longest ones wait most of the time.
	ending, end := context.WithTimeout(ctx, s.bound)
	defer end()
	for i := 0; (s.runs == 0 || i < s.runs*len(binaries)) && ending.Err() == nil; i++ {
		select {
		case runs <- binaries[i%len(binaries)]:
		case <-ending.Done():
		}
	}
	close(runs)
	workers.Wait()
	fmt.Printf("Tests beside %d hogs on %d cores, %d runs at a time, in %v:\n\n", s.hogs, runtime.NumCPU(), s.jobs, time.Since(began).Round(time.Second))
	t.print(os.Stdout)
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}
	return t.failed(), nil
}
