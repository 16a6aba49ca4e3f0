package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// The lines of a document between which the figures are written.
const (
	figuresBegin = "<!-- figures: written by make bench, never by hand -->\n"
	figuresEnd   = "<!-- end of the figures -->\n"
)

// saveScale writes the figures into a file that has a place for them.
func (r *report) saveScale(path string) error { return saveFigures(path, r.scaleFigures()) }

// saveFigures replaces the figures of a document. It does nothing without figures.
func saveFigures(path, figures string) error {
	if figures == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	above, rest, found := strings.Cut(string(text), figuresBegin)
	_, below, ended := strings.Cut(rest, figuresEnd)
	if !found || !ended {
		return errors.New("bench: " + path + " has no place for the figures")
	}
	return os.WriteFile(path, []byte(above+figuresBegin+"\n"+figures+"\n"+figuresEnd+below), 0o644)
}

// scaleFigures says what a group of masters carries per core; it is empty if that was not
// measured.
func (r *report) scaleFigures() string {
	var b strings.Builder
	for _, n := range choiceMasters {
		o := r.results[place{choiceTest(r.usual()), n}]
		if o == nil {
			continue
		}
		all, first := o.median(reading{ours, mastersCPU})
		callers, second := o.median(reading{ours, callersCPU})
		bytes, _ := o.median(reading{ours, traffic})
		if !first || !second {
			continue
		}
		each, perSecond := all/float64(n), float64(time.Second)
		fmt.Fprintf(&b, "| %d | %s | %.0f | %s | %.0f | %.0f | %.0f B | %.0f Mbit/s |\n", n, micros(each),
			perSecond/each, micros(callers), perSecond/callers, perSecond/(all+callers), bytes/float64(n),
			8*bytes/float64(n)*perSecond/each/1e6)
	}
	if b.Len() == 0 {
		return ""
	}
	text := fmt.Sprintf("Measured %s with %s, %d callers and distinct names; a lock is one `Lock` and one "+
		"`Unlock`.\n\n"+
		"| N masters | processor time of a lock, on each master | locks/s at one core of each master | "+
		"processor time of a lock, of the callers | locks/s at one core of the callers | "+
		"locks/s at one core for all | bytes of a lock, on each master | at one core of each master |\n"+
		"|---|---|---|---|---|---|---|---|\n", r.began.UTC().Format("2006-01-02"), r.servers, r.usual())
	return text + b.String() + r.heldFigures()
}

// heldFigures says what held locks take.
func (r *report) heldFigures() string {
	const n = 3
	o := r.results[place{held, n}]
	if o == nil {
		return ""
	}
	masters, renewed := o.median(reading{ours, mastersCPU})
	if _, kept := o.median(reading{ours, heap}); !renewed || !kept {
		return ""
	}
	each, callers := masters/n, o.text(reading{ours, callersCPU})
	every := quorum.DefaultLease / 3
	return fmt.Sprintf("\nA lock that is held takes %s on each master and %s in its process. Each renewal takes %s of "+
		"each master and %s of the callers. With the default lease of %v a lock is renewed every %v: one core of "+
		"each master renews %.0f locks, and does nothing else then.\n",
		o.text(reading{ours, memory}), o.text(reading{ours, heap}), micros(each), callers,
		quorum.DefaultLease, every, float64(every)/each)
}
