//go:build unix

package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

const name = "invoice:42" // the lock that all contend for

// These, and the leases of the scenarios, are multiplied by -chaos.stretch.
var (
	defaultLease    = 1500 * time.Millisecond // and max lease
	nodeTimeout     = 250 * time.Millisecond
	operatorTimeout = time.Second      // of the command
	slack           = time.Second      // alongside a lease, until a lock that is free must be acquired
	soon            = 10 * time.Second // bounds a step that should be immediate, on a busy machine
	orphanBound     = 2 * time.Second  // from the last release until no key may be left
)

func stretchTimes() {
	for _, d := range []*time.Duration{&defaultLease, &nodeTimeout, &operatorTimeout, &slack, &soon, &orphanBound, &markDelay} {
		*d *= time.Duration(*stretch)
	}
}

// library is the kind of contender that must pass. The other kinds are controls: their failures are
// counted, not judged.
const library = "library"

// scenario is a schedule of faults. It is named for what it shows.
type scenario struct {
	name   string
	shows  string
	lease  time.Duration // and max lease; 0 for defaultLease
	disks  [][]string    // arguments of the masters, in turn; none for no disk
	clocks bool          // of the masters can be stepped
	play   func(*run)

	slots   int  // of the semaphore that clients contend for; 0 for a lock
	spares  int  // masters alongside those that clients begin with, in the last places
	founded bool // by its clients: no operator admits the masters

	replicas int   // of each master, with Sentinels that promote them
	on       []int // the numbers of masters; nil for 3 and 5
}

// run is one scenario under way.
type run struct {
	t *testing.T
	*cluster
	kind      string
	n         int
	rng       *rand.Rand
	lease     time.Duration
	slots     int
	registers *registers
	dir       string // of the history of a run that fails, and its views
	workers   []*worker
	result    *result
	playing   time.Time
	endWatch  func()
}

// abandoned ends a scenario whose next step has lost its sense.
type abandoned struct{}

// perform plays a scenario with one kind of contender on n masters, and judges it.
func perform(t *testing.T, s scenario, kind string, n int) *result {
	t.Helper()
	before := goleak.IgnoreCurrent()
	wall := time.Now()
	r := &run{t: t, kind: kind, n: n, rng: rand.New(rand.NewPCG(seedOf(s.name, n), 0)), slots: s.slots, endWatch: func() {},
		lease:  cmp.Or(s.lease*time.Duration(*stretch), defaultLease),
		result: &result{Scenario: s.name, Kind: kind, Masters: n, Seed: *seed}}
	var err error
	r.dir, err = os.MkdirTemp("", "histories-")
	testkit.Must(t, err)
	r.registers, err = serveRegisters()
	testkit.Must(t, err)
	if s.spares > 0 { // to compile it under the locks would take the machine from them
		testkit.Got(program(command))(t)
	}
	t.Cleanup(func() { // after the masters' end
		left, err := inside.Of(lab.backend).Left()
		if err != nil || slices.ContainsFunc(left, func(one string) bool { return strings.HasPrefix(one, "container") }) {
			t.Errorf("left behind, beside the network and the image of all scenarios: %q, %v", left, err)
		}
		leak := goleak.Find(append(notOurs(), before)...)
		testkit.Check(t, leak == nil, "%v", leak)
		if t.Skipped() {
			lab.report.note(s.name + " was not played: what it needs is not on this machine")
		}
		if t.Failed() {
			err := leave(filepath.Join(r.dir, "history.json.gz"), r.events())
			kept, lost := lab.scratch.keep(r.dir)
			t.Logf("the histories stay in %s (%v, %v)", kept, err, lost)
		} else {
			os.RemoveAll(r.dir)
		}
	})
	defer func() { // after any outcome
		for _, w := range r.workers {
			w.cmd.Process.Kill()
			<-w.exited
			w.orders.Close()
		}
		r.endWatch()
		r.registers.close()
	}()
	r.cluster = s.start(r)
	if r.result.isDrawn() && r.ours() {
		r.endWatch = r.watch()
	}
	r.playing = time.Now()
	r.play(s.play)
	r.judge()
	if step := time.Now().Round(0).Sub(wall.Round(0)) - time.Since(wall); step.Abs() > 100*time.Millisecond {
		r.note("this machine's clock, by which keys expire, was set by %v meanwhile", step)
	}
	r.result.Took = time.Since(wall)
	lab.report.add(r.result)
	t.Logf("%v", r.result)
	return r.result
}

func (r *run) play(schedule func(*run)) {
	defer func() {
		if caught := recover(); caught != nil && caught != (abandoned{}) {
			panic(caught)
		}
	}()
	schedule(r)
}

// ours reports whether the contenders are the complete library.
func (r *run) ours() bool { return r.kind == library }

// must abandons the scenario when the harness itself fails.
func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Error(err)
		panic(abandoned{})
	}
}

// expect states what the library must fulfil. For controls a failure is only noted.
func (r *run) expect(ok bool, format string, args ...any) {
	r.t.Helper()
	if ok {
		return
	}
	text := fmt.Sprintf(format, args...)
	r.result.Notes = append(r.result.Notes, "not so: "+text)
	if r.ours() {
		r.t.Error(text)
	} else {
		r.t.Logf("not so: %s", text)
	}
}

// need is expect; after a failure the rest of the schedule has no sense.
func (r *run) need(ok bool, format string, args ...any) {
	r.t.Helper()
	if r.expect(ok, format, args...); !ok {
		panic(abandoned{})
	}
}

// events are those of all contenders, which have ended.
func (r *run) events() (all []history.Event) {
	for _, w := range r.workers {
		all = append(all, returned(slices.Clone(w.history))...)
	}
	return all
}

// returned leaves out the early event of a call of Unlock that returned later.
func returned(events []history.Event) []history.Event {
	done := map[string]bool{}
	for _, e := range events {
		done[e.Owner] = done[e.Owner] || e.Kind == history.Released && e.Return != history.Unknown
	}
	return slices.DeleteFunc(events, func(e history.Event) bool {
		return e.Kind == history.Released && e.Return == history.Unknown && done[e.Owner]
	})
}
