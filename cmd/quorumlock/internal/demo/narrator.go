package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// narrator prints the demo's story and counts its claims. It is safe for concurrent use.
type narrator struct {
	mu     sync.Mutex
	out    io.Writer
	begun  time.Time
	failed func(error) // called when the output cannot be written
	held   int         // claims that held
	broken []string    // claims that did not
}

func (n *narrator) chapter(heading string) { n.print("\n" + heading + "\n") }

// say prints an event with its time.
func (n *narrator) say(format string, args ...any) { n.line("", format, args...) }

// claim prints a claim of the demo, and whether it held.
func (n *narrator) claim(holds bool, format string, args ...any) {
	claim := fmt.Sprintf(format, args...)
	mark := "ok     "
	n.mu.Lock()
	if holds {
		n.held++
	} else {
		mark, n.broken = "FALSE  ", append(n.broken, claim)
	}
	n.mu.Unlock()
	n.line(mark, "%s", claim)
}

// verdict sums up the claims, when the story is over. It returns false when one of them did not hold.
func (n *narrator) verdict() bool {
	if len(n.broken) == 0 {
		n.print(fmt.Sprintf("\nAll %d claims held, in %.1f seconds.\n", n.held, time.Since(n.begun).Seconds()))
		return true
	}
	n.print(fmt.Sprintf("\n%d of %d claims did not hold:\n", len(n.broken), n.held+len(n.broken)))
	for _, claim := range n.broken {
		n.print("  - " + claim + "\n")
	}
	return false
}

func (n *narrator) line(mark, format string, args ...any) {
	n.print(fmt.Sprintf("%6.2fs  %s%s\n", time.Since(n.begun).Seconds(), mark, fmt.Sprintf(format, args...)))
}

func (n *narrator) print(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := io.WriteString(n.out, text); err != nil {
		n.failed(fmt.Errorf("the output cannot be written: %w", err))
	}
}
