package fleet

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
)

var (
	processes = flag.Int("fleet.processes", 60, "how many processes TestFleet has")
	docs      = flag.String("fleet.docs", "", "write reports/fleet.md into this directory")
	revision  = flag.String("fleet.revision", "", "the library's revision, for the report")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// mostJudged is how many processes take so few locks that history can judge all of them.
const mostJudged = 200

// A fleet must keep holders apart, and lock in all regions that reach a majority, with a region cut off and
// after it has come back.
func TestFleet(t *testing.T) {
	r := &report{began: time.Now(), processes: *processes, namesOfEach: 4, takes: commandTakes(t)}
	f, stretch := &fleet{}, time.Duration(1)
	if *processes <= mostJudged {
		f.log, r.namesOfEach, stretch = &history.Log{}, 1, 5
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f.world = newWorld(masterRegions, r.takes)
		defer f.world.end()
		testkit.Must(t, f.world.found())
		f.setLoad(load{pause: loads[0]})
		testkit.Must(t, f.start(people(*processes, r.namesOfEach)))
		for _, p := range phases(stretch) {
			x := f.play(p)
			t.Logf("%s: %.0f locks/s", x.name, x.perSecond(len(x.all())))
			checkPhase(t, &x)
			checkContended(t, &x)
			r.results = append(r.results, x)
		}
		r.goroutines = runtime.NumGoroutine()
		f.setLoad(load{ended: true})
		f.running.Wait()
		r.virtual = time.Since(began)
	})
	r.elapsed = time.Since(r.began)
	for _, failure := range f.failed[:min(len(f.failed), 20)] {
		t.Error(failure)
	}
	if f.log != nil {
		events := f.log.Events()
		t.Logf("%d events judged", len(events))
		for _, v := range history.Check(events, history.Options{HonestClocks: true}) {
			t.Error(v)
		}
	}
	t.Log("\n" + r.text())
	if *docs == "" || t.Failed() {
		return
	}
	testkit.Must(t, os.WriteFile(filepath.Join(*docs, "reports", "fleet.md"), []byte(r.text()), 0o644))
}

// checkPhase checks what must be true of a fleet of any size.
func checkPhase(t *testing.T, r *result) {
	t.Helper()
	if r.sudden { // replies may be there already, and too few may follow
		return
	}
	for at := range regions {
		took, isCut := r.alone(at), slices.Contains(r.cut, at)
		switch {
		case isCut && len(took) > 0:
			t.Errorf("%s: %d locks in region %v, which reaches no majority", r.name, len(took), at)
		case !isCut && len(took) == 0 && (*processes > mostJudged || r.length > 5*time.Second): // few make few calls
			t.Errorf("%s: no lock in region %v", r.name, at)
		}
	}
}

// checkContended checks that a name with 8 contenders changes hands when the leases of those that were cut off
// are over: their votes must not split for ever. It needs a phase of some seconds.
func checkContended(t *testing.T, r *result) {
	t.Helper()
	if r.length < 5*time.Second || len(r.cut) > 0 && r.settle < quorum.DefaultLease {
		return
	}
	testkit.Check(t, len(r.contended(8)) > 0, "%s: no lock at names with 8 contenders", r.name)
}

var lockTakes = regexp.MustCompile(`(?m)^\| 5 \| ([0-9.]+) µs \|`)

// commandTakes returns how long a master is busy with a command, by the figures of docs/scale.md for five
// masters: what a lock takes on each of them, on average. There, the locks are unlocked so soon that a
// majority of the masters gets the two commands.
func commandTakes(t *testing.T) time.Duration {
	t.Helper()
	found := lockTakes.FindStringSubmatch(testkit.Read(t, "../../../docs/scale.md"))
	if found == nil {
		t.Fatal("docs/scale.md has no figure for five masters")
	}
	micros, err := strconv.ParseFloat(found[1], 64)
	testkit.Must(t, err)
	n := len(masterRegions)
	majority, err := quorum.Majority(n)
	testkit.Must(t, err)
	return time.Duration(math.Round(micros * 1000 * float64(n) / float64(2*majority)))
}
