package history

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale is what Register refuses a token with that is lower than one it has seen.
var ErrStale = errors.New("history: stale token")

// Register is a resource as a lock protects it, in memory: one value, fenced. It refuses tokens lower than it has seen, and so
// must lose no write that it acknowledged, even when a holder that was paused goes on after its lock was given to another. It is
// safe for concurrent use; the zero value is ready, with "" in it.
type Register struct {
	mu       sync.Mutex
	highest  uint64
	value    string
	accepted []access
}

// access is one read or write that the register acknowledged.
type access struct {
	token uint64
	write bool
	value string
}

func (a access) String() string {
	if a.write {
		return fmt.Sprintf("write of %q with token %d", a.value, a.token)
	}
	return fmt.Sprintf("read of %q with token %d", a.value, a.token)
}

// Read returns the value. A token counts as seen once it was read with: a holder that reads, computes and writes can then lose
// nobody's write to one that comes before it. The error wraps ErrStale.
func (r *Register) Read(token uint64) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fenceLocked(token); err != nil {
		return "", err
	}
	r.accepted = append(r.accepted, access{token, false, r.value})
	return r.value, nil
}

// Write replaces the value. The write is acknowledged when it returns nil; the error wraps ErrStale, and the register is
// unchanged.
func (r *Register) Write(token uint64, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fenceLocked(token); err != nil {
		return err
	}
	r.value = value
	r.accepted = append(r.accepted, access{token, true, value})
	return nil
}

func (r *Register) fenceLocked(token uint64) error {
	if token < r.highest {
		return fmt.Errorf("%w: %d, where %d was seen", ErrStale, token, r.highest)
	}
	r.highest = token
	return nil
}

// Check returns the acknowledged writes that were lost, of the rule "register". A write is not lost when it is the value now,
// or when the next acknowledged write has an equal or higher token and was made by somebody who could know of it: whoever
// reads before writing must have read the value that the write replaces.
func (r *Register) Check() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return lost(r.accepted, r.value)
}

// lost judges what was acknowledged, in order, against the value that is there now.
func lost(accepted []access, now string) []Violation {
	var all []Violation
	report := func(format string, args ...any) {
		all = append(all, Violation{"register", fmt.Sprintf(format, args...)})
	}
	last := access{write: true} // acknowledged write
	highest := access{}
	reads := map[uint64]access{} // the last by each token
	for _, a := range accepted {
		if a.token < highest.token {
			report("%s was acknowledged after %s", a, highest)
		} else {
			highest = a
		}
		if !a.write {
			if a.value != last.value {
				report("%s, where the last acknowledged one was the %s", a, last)
			}
			reads[a.token] = a
			continue
		}
		if read, ok := reads[a.token]; ok && read.value != last.value {
			report("%s is lost: overwritten by the %s, after its %s", last, a, read)
		}
		reads[a.token] = access{a.token, false, a.value} // it knows what it wrote
		last = a
	}
	if now != last.value {
		report("%s is lost: the value is %q", last, now)
	}
	return all
}
