//go:build unix

// Command mutants leaves out each branch of the code that decides, one at a time, and prints what no test notices:
//
//	go run ./internal/mutants -for 2h
//	go run ./internal/mutants -only quorum/internal/engine/reply.go -list
//
// In Go it makes each condition of an if always true and never true, and leaves out each operand of && and ||, each
// value of a case, and each assignment and call. In Lua it does the same, line by line. All mutants of a group are
// compiled into one test binary of each package: an environment variable says what a process leaves out.
// Each test first runs with nothing left out, and says which mutants it reaches: no other can it notice. A mutant is tried
// with one test at a time, until one fails. A test that takes too long has noticed, too.
//
// That no test notices is no proof that nothing needs the branch. Before it goes, somebody else than who took it out looks
// for a history in which the code differs without it: of 210 that went in two days, 20 had to come back.
//
// harmless.txt lists what no test need notice, each with the reason. An entry without a mutant is an error.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// mutant is the code with one edit.
type mutant struct {
	file, where, edit string
	line              int
	lua               string // the file's text, if it is Lua
}

// String returns what harmless.txt calls the mutant: it has no line, so that other changes keep the entry.
func (m mutant) String() string {
	if m.where == "" {
		return m.file + ": " + m.edit
	}
	return m.file + " " + m.where + ": " + m.edit
}

// group is files with the tests that are run on their mutants.
type group struct {
	files  []string
	suites []suite
}

// suite is tests of one package: those of a pattern, or all, but those of another.
type suite struct {
	module, pkg string
	run, skip   string
	args        []string
}

var simulation = suite{module: "integration", pkg: "sim", run: "TestSeeds|TestReaders|TestHandOvers|TestSemaphores",
	args: []string{"-sim.seeds=20", "-sim.readers=20", "-sim.handovers=20", "-sim.semaphores=20"}}

// hosts are tests of names and addresses that need several hosts.
var hosts = suite{module: "integration", run: "^(TestMembersOfSeveralHosts|TestSameMasterTwice|TestNodesNamedAlike|" +
	"TestServersThatBelieveInOneAddress|TestADeadMasterOverAPoolWithoutAName)$"}

var lists = suite{module: "integration", pkg: "sim", run: "TestListsThatChange", args: []string{"-sim.lists=20"}}

const searches = "TestProtocol|TestFailover|TestLagIsNotEnough|TestMutants|TestLargeMutants|TestSetupsOfMutants" // of lease's tests, the slow ones

var groups = []group{
	{files: []string{"scripts/*.lua", "scripts/operators/*.lua", "scripts/semaphores/*.lua"}, suites: []suite{{pkg: "scripts", skip: "TestDigests"}}},
	{files: []string{"scripts/*.go", "scripts/operators/*.go", "scripts/semaphores/*.go"}, suites: []suite{{pkg: "scripts"}}},
	{files: []string{"quorum/internal/engine/*.go", "quorum/internal/queue/*.go", "quorum/internal/schedule/*.go"}, suites: []suite{
		{pkg: "quorum/internal/engine"}, {pkg: "quorum/internal/queue"}, {pkg: "quorum/internal/schedule"}, {pkg: "quorum"}, simulation,
	}},
	{files: []string{"internal/quorate/*.go"}, suites: []suite{{pkg: "internal/quorate"}}},
	{files: []string{"quorum/internal/lease/attempt.go", "quorum/internal/lease/keep.go", "quorum/internal/lease/lease.go",
		"quorum/internal/lease/use.go"}, suites: []suite{
		{pkg: "quorum/internal/lease", skip: searches}, {pkg: "quorum/internal/engine"}, {pkg: "quorum"},
		{pkg: "quorum/internal/lease", run: "TestSetupsOfMutants"}, simulation,
	}},
	{files: []string{"quorum/internal/slots/*.go"}, suites: []suite{{pkg: "quorum/internal/slots"}, {pkg: "quorum"}, simulation}},
	{files: []string{"quorum/semaphore/*.go"}, suites: []suite{{pkg: "quorum/semaphore"}, {pkg: "quorum"}, simulation}},
	{files: []string{"quorum/internal/waiting/*.go"}, suites: []suite{{pkg: "quorum/internal/waiting"}, {pkg: "quorum"}, simulation}},
	{files: []string{"internal/membership/*.go", "internal/membership/change/*.go", "internal/hosts/*.go", "quorum/internal/roster/*.go"}, suites: []suite{
		{pkg: "internal/membership"}, {pkg: "quorum/internal/roster"}, {pkg: "quorum"},
		{pkg: "quorum/model/membership", skip: "TestMutants"}, lists, {pkg: "node"}, hosts,
	}},
	{files: []string{"node/*.go"}, suites: []suite{
		{pkg: "node"}, {pkg: "quorum", run: "TestARefusedListIsKnownFromTheStart|TestAClaimForAnotherListIsLogged"},
	}},
	{files: []string{"internal/redisconn/*.go"}, suites: []suite{{pkg: "internal/redisconn"}}},
	{files: []string{"internal/pubsub/*.go"}, suites: []suite{
		{pkg: "internal/pubsub"}, {pkg: "node", run: "TestAPasswordThatRotates"},
	}},
	{files: []string{"internal/events/*.go"}, suites: []suite{{pkg: "internal/events"}}},
	{files: []string{"internal/trial/*.go", "internal/trial/heard/*.go"}, suites: []suite{
		{pkg: "internal/trial"}, {pkg: "node", run: "TestATrialOnASlowWay"}, {pkg: "quorum/internal/roster", run: "Ready"},
		{module: "integration", run: "TestReadyWhereMastersRefuseWrites"},
	}},
	{files: []string{"internal/inside/*.go"}, suites: []suite{
		{pkg: "internal/trial"}, {pkg: "quorum/internal/roster"}, {pkg: "node", run: "TestAKeyKeepsItsPipe"},
		{pkg: "redlock"}, {pkg: "inmemory"},
	}},
	{files: []string{"clock/*.go"}, suites: []suite{{pkg: "clock"}}},
	{files: []string{"quorum/*.go", "quorum/internal/holders/*.go", "quorum/internal/tickets/*.go", "quorum/internal/words/*.go"},
		suites: []suite{
			{pkg: "quorum/internal/holders"}, {pkg: "quorum/internal/tickets"}, {pkg: "quorum/internal/words"}, {pkg: "redlock"},
			{pkg: "quorum"}, {pkg: "leader"}, {pkg: "quorum/internal/engine"}, {pkg: "quorum/semaphore"}, {pkg: "inmemory"},
			{pkg: "quorumtest", run: "TestContext|TestTwoOrders|TestLockersLog"}, simulation,
		}},
	{files: []string{"leader/*.go"}, suites: []suite{{pkg: "leader"}}},
	{files: []string{"quorum/operator/*.go"}, suites: []suite{
		{pkg: "quorum/operator"}, {pkg: "node"}, {pkg: "quorum"}, {pkg: "leader"}, {pkg: "cmd/quorumlock"},
	}},
	{files: []string{"internal/pipeline/*.go"}, suites: []suite{{pkg: "internal/pipeline"}, {pkg: "quorum"}, {pkg: "node"}}},
}

var (
	only = flag.String("only", "", "a `pattern` of the mutants to run, as they are printed")
	list = flag.Bool("list", false, "only print the mutants")
	most = flag.Duration("for", 2*time.Hour, "start no mutant later than that: which ones are run by then is up to -seed")
	jobs = flag.Int("jobs", 2*runtime.NumCPU(), "how many mutants run at a time: one that hangs takes long, and no processor time")
	seed = flag.Uint64("seed", uint64(time.Now().Unix()), "of the order in which mutants are run")
)

//go:embed harmless.txt
var harmlessText string

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fleet, err := redistest.StartReal(1)
	if err != nil {
		return err
	}
	defer func() { _ = fleet.Stop() }()
	begun, sums := time.Now(), map[string]map[string]int{}
	fmt.Println("seed", *seed)
	for i := range groups {
		mutants, edited, err := read(dir, fleet.Masters[0], groups[i].files)
		if err != nil {
			return err
		}
		harmless, err := readHarmless(groups[i].files, mutants)
		if err != nil {
			return err
		}
		order := rand.New(rand.NewPCG(*seed, 0)).Perm(len(mutants))
		order = slices.DeleteFunc(order, func(k int) bool { return !wanted.MatchString(mutants[k].String()) })
		if *list {
			slices.Sort(order)
			for _, k := range order {
				fmt.Println(mutants[k])
			}
			continue
		}
		if len(order) == 0 {
			continue
		}
		tests, err := build(ctx, dir, edited, groups[i].suites)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var workers errgroup.Group
		workers.SetLimit(*jobs)
		for done, k := range order {
			m := mutants[k]
			workers.Go(func() error {
				verdict, err := isHarmless, error(nil)
				switch {
				case harmless[m.String()]:
				case time.Since(begun) > *most:
					verdict = notRun
				default:
					verdict, err = try(ctx, dir, m, k+1, tests)
				}
				mu.Lock()
				defer mu.Unlock()
				if verdict == unnoticed || verdict == late {
					fmt.Printf("%d of %d, line %d: %s: %s\n", done+1, len(order), m.line, verdict, m)
				}
				if sums[m.file] == nil {
					sums[m.file] = map[string]int{}
				}
				sums[m.file][verdict]++
				return err
			})
		}
		if err := workers.Wait(); err != nil {
			return err
		}
	}
	printSums(sums)
	return ctx.Err()
}

// What becomes of a mutant. One that takes too long is noticed, too, unless other work is what took the time.
const (
	noticed    = "noticed"
	late       = "takes too long"
	unnoticed  = "nobody notices"
	isHarmless = "harmless"
	notRun     = "not run"
)

// printSums prints how many mutants of each file came to what.
func printSums(sums map[string]map[string]int) {
	columns := []string{noticed, late, unnoticed, isHarmless, notRun}
	fmt.Printf("\n| file | %s |\n|---%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		fmt.Printf("| %s |", file)
		for _, c := range columns {
			fmt.Printf(" %d |", sums[file][c])
		}
		fmt.Println()
	}
}

// readHarmless returns the mutants of these files that harmless.txt names, and wants each of them to exist.
// A line that begins with a blank is a reason.
func readHarmless(patterns []string, mutants []mutant) (map[string]bool, error) {
	all := map[string]bool{}
	for entry := range strings.Lines(harmlessText) {
		entry = strings.TrimRight(entry, "\n")
		file, _, _ := strings.Cut(strings.ReplaceAll(entry, ":", " "), " ")
		if !slices.ContainsFunc(patterns, func(p string) bool { ok, _ := filepath.Match(p, file); return ok }) {
			continue
		}
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.String() == entry }) {
			return nil, fmt.Errorf("harmless.txt: no mutant is called %q", entry)
		}
		all[entry] = true
	}
	return all, nil
}

var blanks = regexp.MustCompile(`\s+`)

// shown returns code in one line.
func shown(code string) string {
	code = blanks.ReplaceAllString(strings.TrimSpace(code), " ")
	if letters := []rune(code); len(letters) > 160 {
		code = string(letters[:160]) + "…"
	}
	return code
}
