package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

type startFunc func(n int, args ...string) (*redistest.Fleet, error)

func startEmbedded(n int, _ ...string) (*redistest.Fleet, error) { return redistest.StartEmbedded(n) }

func TestDemo(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name  string
		start startFunc
	}{{"processes", redistest.StartReal}, {"embedded miniredis", startEmbedded}}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			type result struct {
				code      int
				out, errs output
				svg       string
				took      time.Duration
			}
			r := whileStalled(t, timeout/4, func() (*result, bool) { // masters that stand still look dead
				var r result
				began := time.Now()
				r.svg = filepath.Join(t.TempDir(), "demo.svg")
				r.code = demonstrate(context.Background(), kind.start, r.svg, &r.out, &r.errs)
				r.took = time.Since(began)
				return &r, r.code == exitOK && r.took <= 40*time.Second
			})
			if strings.Contains(r.errs.String(), redistest.ErrNoServer.Error()) {
				t.Skip(r.errs.String())
			}
			if r.code != exitOK || r.errs.String() != "" || strings.Contains(r.out.String(), "FALSE") {
				t.Errorf("exit code %d:\n%s\n%s", r.code, &r.out, &r.errs)
			}
			if r.took > 40*time.Second {
				t.Errorf("it took %v", r.took)
			}
			contains(t, r.out.String(), kind.name,
				"ok     worker A asks for the lock on invoice:42 and is refused: quorumlock: lock \"invoice:42\": not acquired: nodes in quarantine",
				"Node.Admit",
				"ok     6 turns",
				"ok     every token is higher than the one before",
				"ok     3s later, more than a lease, worker A still holds",
				"4 masters of 5 go on renewing",
				"3 masters of 5 go on renewing",
				"the context of the lock has ended",
				"ok     that was in time",
				"m3  connect: down",
				"ok     the reason names the masters that failed, and no other",
				"quarantine left: m1 ",
				"ok     worker B holds invoice:42",
				"is higher than worker A's",
				"One lock over five masters\nNever two holders of the lock\n",
				"x dead xxx", "~~ in quarantine", "▾restart", "▾lost", " #7 ███", "worker B", "▒▒ part of the time",
				"All 14 claims held")
			if strings.Contains(r.out.String(), "\x1b") {
				t.Error("there are colours, and no terminal")
			}
			svg, err := os.ReadFile(r.svg)
			testkit.Must(t, err)
			contains(t, string(svg), "<svg ", "Never two holders of the lock", ">worker B</text>", "> #7 </text>", "</svg>\n")
		})
	}
}

// TestDemoInterrupted ends the context at several points of the story.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"One lock", "m5 is", "Node.Admit", "holds it, token", "worker B asks", "m2 is killed"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			svg := filepath.Join(t.TempDir(), "demo.svg")
			testkit.Must(t, os.WriteFile(svg, []byte("an older picture"), 0o600))
			type played struct {
				out, errs *output
				code      int
				cleanup   time.Duration
			}
			p := whileStalled(t, timeout/4, func() (played, bool) { // the demo gives up on masters that stand still
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var cancelled time.Time
				p := played{errs: new(output), out: &output{sees: onceSeen(at, func() error {
					cancelled = time.Now()
					cancel()
					return nil
				})}}
				p.code = run(ctx, []string{"demo", "-svg", svg}, p.out, p.errs)
				p.cleanup = time.Since(cancelled)
				return p, p.code == exitInterrupted && p.cleanup <= 5*time.Second
			})
			if p.code != exitInterrupted {
				t.Errorf("exit code %d, want %d:\n%s\n%s", p.code, exitInterrupted, p.out, p.errs)
			}
			if p.cleanup > 5*time.Second {
				t.Errorf("it took %v to clean up", p.cleanup)
			}
			if strings.Contains(p.out.String(), "FALSE") {
				t.Errorf("it claims what it could not see:\n%s", p.out)
			}
			contains(t, p.errs.String(), "interrupted")
			if text, err := os.ReadFile(svg); string(text) != "an older picture" {
				t.Errorf("the older picture is %q, %v", text, err)
			}
		})
	}
}

// TestDemoFindsFalseClaims kills a master without the story knowing.
func TestDemoFindsFalseClaims(t *testing.T) {
	t.Parallel()
	const claim = "  - 3s later, more than a lease, worker A still holds"
	summary := whileStalled(t, timeout/4, func() (string, bool) { // masters that stand still look dead
		var fleet *redistest.Fleet
		start := func(n int, args ...string) (_ *redistest.Fleet, err error) {
			fleet, err = startEmbedded(n, args...)
			return fleet, err
		}
		out := &output{sees: onceSeen("m1 is killed", func() error { return fleet.Masters[3].Kill() })}
		var errs output
		if code := demonstrate(context.Background(), start, "", out, &errs); code != exitFailed {
			t.Errorf("exit code %d:\n%s\n%s", code, out, &errs)
		}
		_, summary, found := strings.Cut(out.String(), "claims did not hold:\n")
		if !found {
			t.Fatalf("no summary of what did not hold:\n%s\n%s", out, &errs)
		}
		return summary, strings.Contains(summary, claim)
	})
	contains(t, summary, claim)
}

func TestDemoWithoutOutput(t *testing.T) {
	t.Parallel()
	const closed = "the pipe is closed"
	errs := whileStalled(t, timeout/4, func() (string, bool) { // the demo gives up on masters that stand still
		out := &output{sees: onceSeen("worker B asks", func() error { return errors.New(closed) })}
		var errs output
		if code := run(context.Background(), []string{"demo"}, out, &errs); code != exitFailed {
			t.Errorf("exit code %d:\n%s\n%s", code, out, &errs)
		}
		return errs.String(), strings.Contains(errs.String(), closed)
	})
	contains(t, errs, closed)
}

func TestDemoWithoutMasters(t *testing.T) {
	t.Parallel()
	start := func(int, ...string) (*redistest.Fleet, error) { return nil, errors.New("no room") }
	var out, errs output
	if code := demonstrate(context.Background(), start, "", &out, &errs); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	contains(t, errs.String(), "no room")
}

// TestMain finds any process or file that the panic leaves behind.
func TestDemoPanics(t *testing.T) {
	t.Parallel()
	t.Run("in the story", func(t *testing.T) {
		t.Parallel()
		panicked := whileStalled(t, timeout/4, func() (value any, ok bool) { // the demo gives up on masters that stand still
			defer func() {
				value = recover()
				ok = value != nil
			}()
			out := &output{sees: onceSeen("m1 is killed", func() error { panic("on purpose") })}
			run(context.Background(), []string{"demo"}, out, &output{})
			return nil, false
		})
		if panicked != "on purpose" {
			t.Errorf("the panic did not come through: %v", panicked)
		}
	})
	t.Run("in a worker", func(t *testing.T) {
		t.Parallel()
		errs := whileStalled(t, timeout/4, func() (string, bool) {
			out := &output{sees: onceSeen("holds it, token", func() error { panic("on purpose") })}
			var errs output
			if code := run(context.Background(), []string{"demo"}, out, &errs); code != exitFailed {
				t.Errorf("exit code %d:\n%s\n%s", code, out, &errs)
			}
			return errs.String(), strings.Contains(errs.String(), "on purpose")
		})
		contains(t, errs, "panic: on purpose", "demo_contend.go")
	})
}
