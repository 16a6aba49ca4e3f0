package history

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale is wrapped by the errors of [Register.Read] and [Register.Write] for a token lower than
// one seen before.
var ErrStale = errors.New("history: stale token")

// Register is a resource that a lock protects, in memory: one value, fenced. It refuses tokens
// lower than it has seen, and so must lose no acknowledged write, even when a paused holder goes on
// after the lock passed to another one. It is safe for concurrent use. The zero value is ready to
// use, with the value "".
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

// Read returns the value. A read token counts as seen: a holder that reads, computes and writes
// then never overwrites the write of an earlier holder that it did not read. The error wraps
// [ErrStale].
func (r *Register) Read(token uint64) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fenceLocked(token); err != nil {
		return "", err
	}
	r.accepted = append(r.accepted, access{token, false, r.value})
	return r.value, nil
}

// ReadShared is Read by a reader. Its token does not count as seen: readers at once have tokens of any
// order. It is refused if a later writer has come.
func (r *Register) ReadShared(token uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return fmt.Errorf("%w: %d is below %d", ErrStale, token, r.highest)
	}
	return nil
}

// Write replaces the value. It acknowledges the write by returning nil. Else the error wraps
// [ErrStale], and the register is unchanged.
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
		return fmt.Errorf("%w: %d is below %d", ErrStale, token, r.highest)
	}
	r.highest = token
	return nil
}

// Check returns the acknowledged writes that were lost, as violations of the rule "register". A
// write is not lost when it is the current value, or when the next acknowledged write has an equal
// or higher token and its writer could know of the first one: a writer that reads before it writes
// must have read the value that it replaces.
func (r *Register) Check() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return lost(r.accepted, r.value)
}

// lost judges the accesses, in order, against the current value.
func lost(accepted []access, now string) []Violation {
	var all []Violation
	report := func(format string, args ...any) {
		all = append(all, Violation{"register", fmt.Sprintf(format, args...)})
	}
	last := access{write: true} // the last acknowledged write
	highest := access{}
	reads := map[uint64]access{} // the last read by each token
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
		reads[a.token] = access{a.token, false, a.value} // the writer knows its own value
		last = a
	}
	if now != last.value {
		report("%s is lost: the value is %q", last, now)
	}
	return all
}
