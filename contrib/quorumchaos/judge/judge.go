// Package judge decides whether what a service did can be explained by locks that exclude each other and by
// resources that refuse late writes.
package judge

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/register"
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
	open     []*hold                      // whose end has not been reported
	sizes    map[string]int               // of semaphores
	accepted map[string][]register.Access // by resource
	checked  bool                         // since the last report
}

// New returns a judge. At the end of the test it checks what was reported, and a violation fails the test, unless the
// test itself has called Check since the last report.
func New(tb testing.TB) *Judge {
	j := &Judge{began: time.Now(), accepted: map[string][]register.Access{}, sizes: map[string]int{}}
	tb.Cleanup(func() {
		j.mu.Lock()
		checked := j.checked
		j.mu.Unlock()
		if err := j.Check(); err != nil && !checked && !(errors.Is(err, errNothing) && tb.Failed()) {
			tb.Error(err)
		}
	})
	return j
}

// errNothing is Check's error for a test that would pass whatever its service did.
var errNothing = errors.New("judge: nothing was reported: no hold, no read and no write")

// hold is work under a lock.
type hold struct {
	lock  *quorum.Lock
	names []string
	crowd string // the semaphore that the names are slots of, or ""
	from  int64
	reads bool // it began as a reader's

	// Under Judge.mu: the last instants at which it was seen valid, and a writer's.
	valid, wrote int64
}

// event returns an event of the hold's lock, at one of its names.
func (h *hold) event(name string, kind history.Kind, call, ret, deadline int64) history.Event {
	return history.Event{Name: name, Owner: h.lock.Owner(), Kind: kind, Shared: h.reads, Token: h.lock.Token(), Call: call, Return: ret,
		Deadline: deadline}
}

// Holds reports that work under a lock begins, once for each lock. Call the function that it returns when the work
// ends, before Unlock. Readers may hold with readers, and each slot of a semaphore is a name of its own. Holds
// ignores a lock that is entered again.
//
// If the lock is lost or handed over before the work ends, or the end is not reported, the judge knows less: the lock
// counts as held from its begin to the last instant at which another hold of its name began and found it valid. A
// lock that is downgraded counts as a writer's to the last such instant.
func (j *Judge) Holds(lock *quorum.Lock) (ended func()) {
	from := j.now()
	if !lock.Valid() {
		return func() {}
	}
	names, crowd := lock.Names(), ""
	if slots := lock.Slots(); len(slots) > 0 {
		crowd, names = names[0], nil
		for _, slot := range slots {
			names = append(names, fmt.Sprintf("%s:%d", crowd, slot))
		}
	}
	h := &hold{lock: lock, names: names, crowd: crowd, from: from, reads: lock.Shared(), valid: from, wrote: from}
	add := func(kind history.Kind, call, ret, deadline int64) {
		for _, name := range names {
			j.Add(h.event(name, kind, call, ret, deadline))
		}
	}
	if !j.begin(h) {
		return func() {}
	}
	seen := j.now()
	if !lock.Valid() {
		seen = from
	}
	add(history.Acquired, from, from, seen)
	return func() {
		valid := j.end(h)
		if to := j.now(); lock.Valid() {
			add(history.Released, to, to, to)
		} else {
			add(history.Lost, valid, to, valid)
		}
	}
}

// Semaphore sets how many slots of a semaphore, at least 1, may be held at once, in all processes. In events, the
// names of its slots are NAME:0, NAME:1 and so on.
func (j *Judge) Semaphore(name string, size int) {
	if size < 1 {
		panic(fmt.Sprintf("judge: the semaphore %q of %d slots", name, size))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sizes[name], j.checked = size, false
}

// crowds returns what breaks the sizes of semaphores.
func (j *Judge) crowds() (all []history.Violation) {
	for _, semaphore := range slices.Sorted(maps.Keys(j.sizes)) {
		ofSlots := slices.DeleteFunc(slices.Clone(j.events), func(e history.Event) bool {
			slot, found := strings.CutPrefix(e.Name, semaphore+":")
			return !found || slot == "" || strings.Trim(slot, "0123456789") != ""
		})
		all = append(all, history.CheckCrowd(ofSlots, j.sizes[semaphore])...)
	}
	return all
}

// withReaders returns the overlaps of readers with writers. The tokens of readers are not judged: readers that are
// granted at once may report in any order.
func (j *Judge) withReaders(reads map[string]bool) (all []history.Violation) {
	for _, o := range history.Overlaps(j.events) {
		if first, second := o.Holds[0], o.Holds[1]; reads[first.Owner] != reads[second.Owner] {
			all = append(all, history.Violation{Rule: "overlap", At: o.From, Detail: fmt.Sprintf("%q: a reader and a writer for %v: "+
				"owner %s, token %d and owner %s, token %d", first.Name, time.Duration(o.To-o.From), first.Owner, first.Token,
				second.Owner, second.Token)})
		}
	}
	return all
}

// begin notes which other holds of the names are valid now: their locks may be lost before they end. It returns
// false if work under the lock is going on already: it was entered again. A lock's Valid is not called under j.mu,
// because hooks may call the judge.
func (j *Judge) begin(h *hold) bool {
	j.mu.Lock()
	others := slices.Clone(j.open)
	again := slices.ContainsFunc(others, func(other *hold) bool { return other.lock.Owner() == h.lock.Owner() })
	if !again {
		j.open = append(j.open, h)
	}
	j.mu.Unlock()
	if again {
		return false
	}
	for _, other := range others {
		for _, name := range other.names {
			at, isWriters := j.now(), !other.lock.Shared()
			isRival := slices.Contains(h.names, name) || h.crowd != "" && h.crowd == other.crowd
			if isRival && other.lock.Valid() {
				j.mu.Lock()
				other.valid = max(other.valid, at)
				if isWriters {
					other.wrote = max(other.wrote, at)
				} else if !other.reads {
					j.events = append(j.events, other.event(name, history.Downgraded, other.wrote, at, 0))
				}
				j.events = append(j.events, other.event(name, history.Acquired, other.from, other.from, at))
				j.mu.Unlock()
			}
		}
	}
	return true
}

// end returns until when the hold's lock was valid at least.
func (j *Judge) end(h *hold) (valid int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = slices.DeleteFunc(j.open, func(other *hold) bool { return other == h })
	return h.valid
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
// Values are compared by their text ([fmt.Sprint]).
func (j *Judge) Read(resource string, token uint64, value any) {
	j.access(resource, register.Access{Token: token, Value: fmt.Sprint(value)})
}

// Wrote reports that a resource has accepted a write.
func (j *Judge) Wrote(resource string, token uint64, value any) {
	j.access(resource, register.Access{Token: token, Value: fmt.Sprint(value), Write: true})
}

func (j *Judge) access(resource string, a register.Access) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a.At = j.now()
	if len(j.accepted[resource]) == 0 && !a.Write { // what it had before the test
		j.accepted[resource] = []register.Access{{Value: a.Value, Write: true}}
	}
	j.timeline.add(a.At, "%s: %v", resource, a)
	j.accepted[resource], j.checked = append(j.accepted[resource], a), false
}

// Check returns nil, or an error with the violations and what happened around each. It fails too if nothing was
// reported.
func (j *Judge) Check() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.checked = true
	if len(j.events) == 0 && len(j.accepted) == 0 {
		return errNothing
	}
	origin := j.began.UnixNano()
	reads := map[string]bool{}
	for _, e := range j.events {
		if e.Shared && e.Kind == history.Acquired {
			reads[e.Owner] = true
		}
	}
	writers := slices.DeleteFunc(slices.Clone(j.events), func(e history.Event) bool { return reads[e.Owner] })
	all := history.Check(writers, history.Options{HonestClocks: true, Origin: origin})
	all = slices.Concat(all, j.withReaders(reads), j.crowds())
	for _, resource := range slices.Sorted(maps.Keys(j.accepted)) {
		for _, v := range register.Check(j.accepted[resource]) {
			v.Detail = resource + ": " + v.Detail
			all = append(all, history.Violation(v))
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
