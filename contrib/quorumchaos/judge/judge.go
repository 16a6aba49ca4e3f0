// Package judge decides whether what a service did can be explained by locks that exclude each other and by
// resources that refuse late writes.
package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/quorum"
)

const mostTold = 3 // violations, each with its timeline

// Judge is told what a service did under which token. It finds two holders at once, tokens that repeat or fall,
// and lost writes. Its methods are safe for concurrent use.
type Judge struct {
	began time.Time

	mu       sync.Mutex
	timeline timeline
	events   []history.Event
	accepted map[string][]history.Access // by resource
	checked  bool                        // since the last report
}

// New returns a judge. Unless the test calls Check after the last report, its end does, and a violation fails the
// test.
func New(tb testing.TB) *Judge {
	j := &Judge{began: time.Now(), accepted: map[string][]history.Access{}, checked: true}
	tb.Cleanup(func() {
		j.mu.Lock()
		checked := j.checked
		j.mu.Unlock()
		if err := j.Check(); err != nil && !checked {
			tb.Error(err)
		}
	})
	return j
}

// Holds reports that work under a lock begins, once for each lock; the function that it returns, that it ends:
// call that before Unlock. Of a lock that is lost meanwhile, only the begin counts as held. Holds ignores readers.
func (j *Judge) Holds(lock *quorum.Lock) (ended func()) {
	from := j.now()
	if lock.Shared() || !lock.Valid() {
		return func() {}
	}
	names := lock.Names()
	if slots := lock.Slots(); len(slots) > 0 { // each is a name of its own
		semaphore := names[0]
		names = nil
		for _, slot := range slots {
			names = append(names, fmt.Sprintf("%s:%d", semaphore, slot))
		}
	}
	add := func(kind history.Kind, call, ret int64) {
		for _, name := range names {
			j.Add(history.Event{Name: name, Owner: lock.Owner(), Kind: kind, Token: lock.Token(), Call: call, Return: ret,
				Deadline: call})
		}
	}
	add(history.Acquired, from, from)
	return func() {
		if to := j.now(); lock.Valid() {
			add(history.Released, to, to)
		} else {
			add(history.Lost, from, to)
		}
	}
}

// Add reports holds that others recorded, such as other processes ([history.ReadJSON]), with times in Unix
// nanoseconds. A hold of which only a name, a token, a begin and an end are known is an event
// {Kind: [history.Acquired], Owner: any id, Call: begin, Return: begin, Deadline: end}.
func (j *Judge) Add(events ...history.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range events {
		j.timeline.add(min(max(e.Call, e.Return), j.now()), "%-8v %s, token %d", e.Kind, e.Name, e.Token)
	}
	j.events, j.checked = append(j.events, events...), false
}

// Read reports that a resource has answered a read. Resources report in the order in which they answer and accept.
func (j *Judge) Read(resource string, token uint64, value any) {
	j.access(resource, history.Access{Token: token, Value: fmt.Sprint(value)})
}

// Wrote reports that a resource has accepted a write.
func (j *Judge) Wrote(resource string, token uint64, value any) {
	j.access(resource, history.Access{Token: token, Value: fmt.Sprint(value), Write: true})
}

func (j *Judge) access(resource string, a history.Access) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a.At = j.now()
	if len(j.accepted[resource]) == 0 && !a.Write { // what it had before the test
		j.accepted[resource] = []history.Access{{Value: a.Value, Write: true}}
	}
	j.timeline.add(a.At, "%s: %v", resource, a)
	j.accepted[resource], j.checked = append(j.accepted[resource], a), false
}

// Check returns nil, or an error with the violations and what happened around each.
func (j *Judge) Check() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.checked = true
	origin := j.began.UnixNano()
	all := history.Check(j.events, history.Options{HonestClocks: true, Origin: origin})
	for _, resource := range slices.Sorted(maps.Keys(j.accepted)) {
		for _, v := range history.CheckAccesses(j.accepted[resource]) {
			v.Detail = resource + ": " + v.Detail
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b history.Violation) int { return cmp.Compare(a.At, b.At) })
	var told strings.Builder
	first := all[:min(len(all), mostTold)]
	for i, v := range first {
		fmt.Fprintf(&told, "\n%v", v)
		if i+1 < len(first) && (first[i+1].At == v.At || first[i+1].At == history.Unknown) {
			continue // what surrounds the next one surrounds this one
		}
		fmt.Fprintf(&told, "\n%s", j.timeline.around(v.At, origin))
	}
	return fmt.Errorf("judge: violations: %d%s", len(all), &told)
}

// now is in Unix nanoseconds, by a clock that nobody sets after the Judge was made.
func (j *Judge) now() int64 { return j.began.UnixNano() + int64(time.Since(j.began)) }

// Note adds a line to the timeline: of a fault, say.
func (j *Judge) Note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.timeline.add(j.now(), format, args...)
}
