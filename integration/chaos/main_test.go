//go:build unix

// Package chaos runs contenders, processes of their own, against the masters of contrib/quorumchaos while faults happen,
// and judges the outcome: the history by package history, a fenced register, the keys that are
// left, goroutines and containers.
//
// Every scenario is named for what it shows. Its figures go to the log, and with -chaos.report into
// a report.
//
// A new scenario goes to the end of the list in chaos_test.go (its place decides whether it has 3 or 5 masters without
// -chaos.full), with replicas into failovers_test.go, its name into the Makefile if make test plays it, and its control
// below the list. A new fault of masters or paths is a method of quorumchaos.Cluster, which logs and counts
// it; random walks draw it if it is in the kit's schedules. One that is a command to a server goes into faults_test.go, and
// into faults in walk_test.go. run_test.go sets a run up, judge_test.go decides, and report_test.go writes; make chaos writes docs/reports/chaos*, with the pictures of draw_test.go.
package chaos

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

var (
	full     = flag.Bool("chaos.full", false, "run every scenario on 3 and on 5 masters, and the controls; else each on either")
	nodes    = flag.Int("chaos.masters", 0, "run every scenario on this many masters only (3 or 5; failovers 1 or 3)")
	seed     = flag.Uint64("chaos.seed", 0, "the seed of every scenario; 0 for a random one")
	stretch  = flag.Int("chaos.stretch", 1, "multiply leases, timeouts and bounds, for a machine with other work")
	walkFor  = flag.Duration("chaos.walk", 30*time.Second, "how long each random walk is")
	race     = flag.Bool("chaos.race", testkit.Race(), "build the clients with the race detector; with it they need twice the processor time or more")
	wanted   = flag.String("chaos.backend", "auto", "the kind of the masters: containers, processes, or auto for containers where there is an engine")
	reportTo = flag.String("chaos.report", "", "the file that the report is written to")
	pairTo   = flag.String("chaos.pair", "", "the directory that the README's pictures are written to, if both were played")
	revision = flag.String("chaos.revision", "unknown", "the library's revision, for the report")
)

// startLine has a run's directory and its name at the container engine, for a search of its
// leftovers.
const startLine = "chaos: directory %s run %s"

// noRun is the name of a run without an engine.
const noRun = "-"

// lab is the state that all scenarios share.
var lab struct {
	backend *quorumchaos.Backend
	scratch *scratch
	report  report
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // masters die all the time
	child.BeJanitor(scratchOf, clean)
	flag.Parse()
	stretchTimes()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if *seed == 0 {
		*seed = rand.Uint64N(1e9) + 1
	}
	if lab.scratch, err = openScratch(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, lab.scratch.janitor.Close("")) }()
	if lab.backend, err = quorumchaos.Open(strings.TrimPrefix(*wanted, "auto")); err != nil {
		if errors.Is(err, backstage.ErrNone) {
			fmt.Println("SKIPPED:", err)
			return 0, nil
		}
		return 1, err
	}
	of := inside.Of(lab.backend)
	fmt.Printf(startLine+"\n", lab.scratch.dir, cmp.Or(of.Run, noRun))
	fmt.Printf("chaos: masters are %s; seed %d\n", of.Kind, *seed)
	// Should this process die first, the reaper and the janitor clean up.
	defer func() {
		if err = errors.Join(err, lab.backend.Close()); code == 0 && err == nil {
			err = goleak.Find(notOurs()...)
		}
	}()
	if code = m.Run(); *reportTo != "" {
		err = lab.report.write(*reportTo, code == 0)
	}
	return code, errors.Join(err, lab.report.writePair())
}

// notOurs are goroutines that a scenario may leave: idle connections to the engine.
func notOurs() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
	}
}
