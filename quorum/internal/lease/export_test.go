package lease

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// The functions of this file are for searches of this package.

// Check returns which of the fields' invariants does not hold, or nil.
func (l *Lease) Check() error {
	keeping, processes := 0, map[string]bool{}
	var wrong []string
	for i := range l.votes {
		v := &l.votes[i]
		if l.toRaise.Has(i) && !v.has(counted) {
			wrong = append(wrong, "a counter is to be raised whose grant was not counted")
		}
		if v.has(exclusive) && l.mode != Read {
			wrong = append(wrong, "a vote of a writer is exclusive")
		}
		if v.until != clock.Never {
			keeping++
			processes[v.process] = true
			if !l.HasEnded() && !v.has(mayHold) {
				wrong = append(wrong, "a master that keeps the grant needs no release")
			}
		}
	}
	n := len(l.votes)
	for what, holds := range map[string]bool{
		"first < len(votes)":                    n == 0 || int(l.first) < n,
		"asked is all of a won attempt":         int(l.asked) == n || int(l.asked) < n && l.verdict != Won,
		"toRaise has no more than writeBacks":   l.toRaise.Len() <= l.writeBacks,
		"a lock that is kept has raised all":    !l.Kept() || l.toRaise == 0,
		"a lock that is kept was won":           !l.Kept() || l.verdict == Won,
		"depth >= 1":                            !l.Kept() || l.depth >= 1,
		"deadline <= maxHoldEnd":                !l.Kept() || l.maxHoldEnd == clock.Never || l.deadline <= l.maxHoldEnd,
		"no two votes that count are a process": keeping == len(processes),
	} {
		if !holds {
			wrong = append(wrong, what)
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("invariants of %+v: %s", *l, strings.Join(wrong, "; "))
}

// Clone returns a copy that shares nothing but the terms.
func (l *Lease) Clone() *Lease {
	copied := *l
	copied.votes = slices.Clone(l.votes)
	return &copied
}

// Age moves all instants into the past, as if the clock had advanced by d and shown the same instant
// since.
func (l *Lease) Age(d time.Duration) {
	for _, at := range []*clock.Instant{&l.begunAt, &l.renewedAt, &l.deadline, &l.maxHoldEnd, &l.next} {
		*at = at.Add(-d)
	}
	for i := range l.votes {
		l.votes[i].until = l.votes[i].until.Add(-d)
	}
}

// AppendKey appends all state but the votes that determines how the lease goes on. Instants are relative to
// now. None is longer ago than horizon, past which it makes no difference. Without timers it leaves
// out what decides on Next only.
func (l *Lease) AppendKey(b []byte, now clock.Instant, horizon time.Duration, timers bool) []byte {
	instant := func(i clock.Instant, horizon time.Duration) {
		ago := int64(-1 << 62)
		if i != clock.Never {
			ago = int64(max(i.Sub(now), -horizon))
		}
		b = binary.AppendVarint(b, ago)
	}
	if l.IsDone() {
		return b
	}
	b = append(b, byte(l.phase), byte(l.mode), byte(l.depth))
	b = binary.AppendUvarint(b, l.token)
	if l.phase <= Settling {
		b = append(b, byte(l.verdict), byte(l.cause), l.asked)
		if l.HasUnasked() {
			b = append(b, l.first)
		}
	}
	if l.HasUnasked() || l.terms.MaxHold > 0 || l.terms.MinHold > 0 || l.terms.Fixed {
		instant(l.begunAt, horizon)
	}
	instant(l.deadline, 0)
	instant(l.maxHoldEnd, 0)
	if l.stopped {
		b = append(b, 's')
	}
	if timers {
		instant(l.renewedAt, horizon)
		instant(l.next, 0)
	}
	return b
}

// AppendVote appends the state of one vote, as AppendKey does the rest. process returns a name for each process, so
// that the caller can treat processes as interchangeable.
func (l *Lease) AppendVote(b []byte, master int, now clock.Instant, timers bool, process func(string) byte) []byte {
	if l.IsDone() {
		return b
	}
	v := &l.votes[master]
	left, name := int64(-1), byte(0)
	if v.until != clock.Never {
		left, name = int64(max(v.until.Sub(now), 0)), process(v.process)
	}
	b = binary.AppendVarint(b, left)
	keeps := v.flags &^ forgot
	if timers {
		keeps = v.flags
	}
	b = append(b, name)
	if l.phase <= Settling {
		b = append(b, byte(v.answer), byte(keeps), byte(l.toRaise>>master&1))
		return binary.AppendUvarint(b, v.token)
	}
	return append(b, byte(keeps&^counted))
}
