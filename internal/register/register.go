// Package register is a resource behind a lock: fenced, and judged by the accesses that it acknowledged.
package register

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// ErrStale is wrapped by the errors of [Register.Read] and [Register.Write] for a token lower than
// one seen before.
var ErrStale = errors.New("register: stale token")

// Unknown is the At of a violation that showed at no instant in particular.
const Unknown int64 = math.MaxInt64

// Violation is a write that was lost, or an access out of order: a history.Violation.
type Violation struct {
	Rule   string // "register"
	Detail string
	At     int64
}

func (v Violation) String() string { return v.Rule + ": " + v.Detail }

// Register is a resource that a lock protects, in memory: one value, fenced. It refuses tokens
// lower than it has seen, and so must lose no acknowledged write, even when a paused holder goes on
// after the lock passed to another one. It is safe for concurrent use. The zero value is ready to
// use, with the value "".
type Register struct {
	mu       sync.Mutex
	highest  uint64
	value    string
	accepted []Access
}

// Access is one read or write that a resource acknowledged.
type Access struct {
	Token uint64
	Write bool
	Value string
	At    int64 // when, for [Violation]; it does not decide the order
}

func (a Access) String() string {
	if a.Write {
		return fmt.Sprintf("write of %q with token %d", a.Value, a.Token)
	}
	return fmt.Sprintf("read of %q with token %d", a.Value, a.Token)
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
	r.accepted = append(r.accepted, Access{Token: token, Value: r.value})
	return r.value, nil
}

// ReadShared is Read by a reader. Its token does not count as seen: readers at once have tokens of any
// order. It is refused if a later writer has come.
func (r *Register) ReadShared(token uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checkLocked(token)
}

// Write replaces the value. It acknowledges the write by returning nil. Otherwise the error wraps
// [ErrStale], and the register is unchanged.
func (r *Register) Write(token uint64, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fenceLocked(token); err != nil {
		return err
	}
	r.value = value
	r.accepted = append(r.accepted, Access{Token: token, Write: true, Value: value})
	return nil
}

func (r *Register) fenceLocked(token uint64) error {
	r.highest = max(r.highest, token)
	return r.checkLocked(token)
}

func (r *Register) checkLocked(token uint64) error {
	if token < r.highest {
		return fmt.Errorf("%w: %d is below %d", ErrStale, token, r.highest)
	}
	return nil
}

// Check returns the acknowledged writes that were lost, as violations of the rule "register". A
// write is not lost when it is the current value, or when the next acknowledged write has an equal
// or higher token and its writer could know of the first one: a writer that reads before it writes
// must have read the value that it replaces.
func (r *Register) Check() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, last := lost(r.accepted)
	if r.value != last.Value {
		all = append(all, Violation{"register", fmt.Sprintf("%s is lost: the value is %q", last, r.value), Unknown})
	}
	return all
}

// Check returns the writes that were lost, as violations of the rule "register", and accesses with
// a lower token than one before: see [Register.Check]. The accesses are those to one resource, in the order
// in which it acknowledged them. It had the value "" at first.
func Check(accepted []Access) []Violation {
	all, _ := lost(accepted)
	return all
}

// lost judges the accesses, in order, and returns the last write.
func lost(accepted []Access) (all []Violation, last Access) {
	last = Access{Write: true}
	highest := Access{}
	reads := map[uint64]Access{} // the last read by each token
	for _, a := range accepted {
		report := func(format string, args ...any) {
			all = append(all, Violation{"register", fmt.Sprintf(format, args...), a.At})
		}
		if a.Token < highest.Token {
			report("%s was acknowledged after the %s, which is higher", a, highest)
		} else {
			highest = a
		}
		if !a.Write {
			if a.Value != last.Value {
				report("%s, where the last acknowledged one was the %s", a, last)
			}
			reads[a.Token] = a
			continue
		}
		if read, ok := reads[a.Token]; ok && read.Value != last.Value {
			report("%s is lost: overwritten by the %s, after its %s", last, a, read)
		}
		reads[a.Token] = Access{Token: a.Token, Value: a.Value} // the writer knows its own value
		last = a
	}
	return all, last
}
