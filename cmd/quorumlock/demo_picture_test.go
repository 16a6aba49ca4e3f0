package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// play is a story in virtual time: worker B holds from the given second on, and worker A from 1 s to 5 s.
func play(t *testing.T, second time.Duration) (p *timeline.Picture) {
	synctest.Test(t, func(t *testing.T) {
		c := &chart{begun: time.Now()}
		a, b, m := &c.workers[0], &c.workers[1], &c.masters[0]
		c.become(m, timeline.Up, "up")
		for i := range 10 {
			at := time.Duration(i) * time.Second
			switch at {
			case time.Second:
				c.hold(a, 1_000_001)
			case 2 * time.Second:
				c.become(m, timeline.Dead, "dead")
			case 3 * time.Second:
				c.become(m, timeline.Quarantine, "quarantine")
				c.quarantine(m, 4*time.Second)
			case 5 * time.Second:
				c.become(a, 0, "")
				c.mark(a, "lost")
			}
			if at == second {
				c.hold(b, 1_000_009)
			}
			time.Sleep(time.Second)
		}
		p = c.picture()
	})
	return p
}

func TestChart(t *testing.T) {
	t.Parallel()
	p := play(t, 6*time.Second)
	span := func(from, to int, state timeline.State, text, detail string) timeline.Span {
		return timeline.Span{From: time.Duration(from) * time.Second, To: time.Duration(to) * time.Second,
			State: state, Text: text, Detail: detail}
	}
	for row, want := range map[int][]timeline.Span{
		0: {span(0, 2, timeline.Up, "up", ""), span(2, 3, timeline.Dead, "dead", ""), span(3, 7,
			timeline.Quarantine, "quarantine", ""),
			span(7, 10, timeline.Up, "up", "")},
		1:               nil,
		masterCount:     {span(1, 5, timeline.Holds, "#1", "token 1000001")},
		masterCount + 1: {span(6, 10, timeline.Holds, "#2", "token 1000009")},
	} {
		if got := p.Rows[row].Spans; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", p.Rows[row].Label, got, want)
		}
	}
	if p.Verdict != "Never two holders of the lock" || len(p.Rows[masterCount].Marks) != 1 {
		t.Errorf("%q, %v", p.Verdict, p.Rows[masterCount].Marks)
	}
}

func TestChartOfTwoHolders(t *testing.T) {
	t.Parallel()
	p := play(t, 4*time.Second)
	for _, row := range p.Rows[masterCount:] {
		last := row.Spans[len(row.Spans)-1]
		if last.State != timeline.Clash || last.From != 4*time.Second || last.To != 5*time.Second {
			t.Errorf("%s: %v", row.Label, row.Spans)
		}
	}
	if p.Verdict != "Two holders of the lock" {
		t.Error(p.Verdict)
	}
}

// A file that cannot be made is refused before anything starts.
func TestDemoRefusesAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(int, ...string) (*redistest.Fleet, error) {
		t.Error("masters are started")
		return nil, errors.New("on purpose")
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none", "demo.svg"): "none",
		dir:                                    "is a directory",
		os.DevNull:                             "is not a regular file",
	} {
		var out, errs output
		if code := demonstrate(context.Background(), start, path, &out, &errs); code != exitFailed ||
			out.String() != "" {
			t.Errorf("%s: exit code %d, and it said %q", path, code, &out)
		}
		contains(t, errs.String(), "quorumlock: demo: -svg: ", want)
	}
	_, stderr := command(t, exitUsage, "demo", "-svg", "")
	contains(t, stderr, "quorumlock: demo: -svg needs the path of a file")
}

// A demo without an end leaves no file, and an older one as it was.
func TestDemoLeavesNoEmptyFile(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*redistest.Fleet, context.CancelFunc) error{
		"no masters":  func(*redistest.Fleet, context.CancelFunc) error { return errors.New("no room") },
		"interrupted": func(_ *redistest.Fleet, cancel context.CancelFunc) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, before := range []string{"", "an older picture"} {
				path := filepath.Join(t.TempDir(), "demo.svg")
				if before != "" {
					if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				start := func(n int, args ...string) (*redistest.Fleet, error) {
					fleet, err := startEmbedded(n, args...)
					if err == nil {
						if err = stop(fleet, cancel); err != nil {
							return nil, errors.Join(err, fleet.Stop())
						}
					}
					return fleet, err
				}
				var out, errs output
				if code := demonstrate(ctx, start, path, &out, &errs); code == exitOK {
					t.Errorf("exit code %d", code)
				}
				text, err := os.ReadFile(path)
				if os.IsNotExist(err) != (before == "") || string(text) != before {
					t.Errorf("the file is %q, %v; it was %q", text, err, before)
				}
			}
		})
	}
}

// A picture replaces all of an older one.
func TestPictureReplacesAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "demo.svg")
	if err := os.WriteFile(path, bytes.Repeat([]byte("previous "), 20_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*timeline.Picture{play(t, 6*time.Second), {Title: "empty"}} {
		f, err := openPicture(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.write(p); (err != nil) != (p.Title == "empty") {
			t.Error(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), "<svg ") || strings.Contains(string(text), "previous") {
			t.Errorf("%.100q, %v", text, err)
		}
	}
}
