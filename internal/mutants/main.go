//go:build unix

// Command mutants leaves out each branch of the code that decides, one at a time, and prints what no test notices:
//
//	go run ./internal/mutants -for 2h
//	go run ./internal/mutants -only quorum/internal/engine/reply.go -list
//
// In Go it makes each condition of an if always true and never true, and leaves out each operand of && and ||, each
// value of a case, and each assignment and call. In Lua it does the same, line by line. All mutants of a group are
// compiled into one test binary of each package: an environment variable says what a process leaves out.
// Tests stop at the first failure; a test that takes too long has noticed, too.
//
// harmless.txt lists what no test need notice, each with the reason. An entry without a mutant is an error.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/mutants/overlay"
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

// group is files with the tests that are run on their mutants, the cheap ones first.
type group struct {
	files []string
	tests []test
}

type test struct {
	module, pkg string
	args        []string
	path        string        // of the binary
	takes, cpu  time.Duration // with nothing left out
}

var simulation = test{module: "integration", pkg: "sim",
	args: []string{"-test.run=TestSeeds|TestReaders|TestHandOvers|TestSemaphores",
		"-sim.seeds=20", "-sim.readers=20", "-sim.handovers=20", "-sim.semaphores=20"}}

var lists = test{module: "integration", pkg: "sim", args: []string{"-test.run=TestListsThatChange", "-sim.lists=20"}}

const searches = "TestProtocol|TestFailover|TestLagIsNotEnough|TestMutants|TestLargeMutants|TestSetupsOfMutants" // of lease's tests, the slow ones

const contention = "TestContention|TestTurns|TestPollsOfManyQueuesAreBounded" // of waiting's tests, the slow ones

var groups = []group{
	{files: []string{"scripts/*.lua", "scripts/operators/*.lua"}, tests: []test{
		{pkg: "scripts", args: []string{"-test.run=TestVectorsOnRedis"}},
		{pkg: "scripts", args: []string{"-test.skip=TestVectorsOnRedis|TestDigests|^Fuzz"}},
	}},
	{files: []string{"quorum/internal/engine/*.go", "quorum/internal/queue/*.go", "quorum/internal/schedule/*.go"}, tests: []test{
		{pkg: "quorum/internal/engine"}, {pkg: "quorum/internal/queue"}, {pkg: "quorum/internal/schedule"}, {pkg: "quorum"}, simulation,
	}},
	{files: []string{"internal/quorate/*.go"}, tests: []test{{pkg: "internal/quorate"}}},
	{files: []string{"quorum/internal/lease/attempt.go", "quorum/internal/lease/keep.go", "quorum/internal/lease/lease.go",
		"quorum/internal/lease/use.go"}, tests: []test{
		{pkg: "quorum/internal/lease", args: []string{"-test.skip=" + searches}}, {pkg: "quorum/internal/engine"}, {pkg: "quorum"},
		{pkg: "quorum/internal/lease", args: []string{"-test.run=TestSetupsOfMutants"}}, simulation,
	}},
	{files: []string{"quorum/internal/slots/*.go"}, tests: []test{{pkg: "quorum/internal/slots"}, {pkg: "quorum"}, simulation}},
	{files: []string{"quorum/semaphore/*.go"}, tests: []test{{pkg: "quorum/semaphore"}, {pkg: "quorum"}, simulation}},
	{files: []string{"quorum/internal/waiting/*.go"}, tests: []test{
		{pkg: "quorum/internal/waiting", args: []string{"-test.skip=" + contention}},
		{pkg: "quorum/internal/waiting", args: []string{"-test.run=" + contention}},
		{pkg: "quorum"}, simulation,
	}},
	{files: []string{"internal/membership/*.go", "internal/membership/change/*.go", "quorum/internal/roster/*.go"}, tests: []test{
		{pkg: "internal/membership"}, {pkg: "quorum/internal/roster"}, {pkg: "quorum"}, {pkg: "quorum/model/membership"}, lists, {pkg: "node"},
	}},
	{files: []string{"internal/pipeline/*.go"}, tests: []test{{pkg: "internal/pipeline"}, {pkg: "quorum"}, {pkg: "node", args: []string{"-test.skip=^Fuzz"}}}},
}

var (
	only = flag.String("only", "", "a `pattern` of the mutants to run, as they are printed")
	list = flag.Bool("list", false, "only print the mutants")
	most = flag.Duration("for", 2*time.Hour, "start no mutant later than that: which ones are run by then is up to -seed")
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
		if err := build(ctx, dir, edited, groups[i].tests); err != nil {
			return err
		}
		for done, k := range order {
			m := mutants[k]
			verdict := isHarmless
			switch {
			case harmless[m.String()]:
			case time.Since(begun) > *most:
				verdict = notRun
			default:
				verdict = try(ctx, dir, m, k+1, groups[i].tests)
			}
			if verdict == unnoticed || verdict == late {
				fmt.Printf("%d of %d, line %d: %s: %s\n", done+1, len(order), m.line, verdict, m)
			}
			if sums[m.file] == nil {
				sums[m.file] = map[string]int{}
			}
			sums[m.file][verdict]++
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

// try runs the tests on the mutant of that number.
func try(ctx context.Context, dir string, m mutant, number int, tests []test) (verdict string) {
	for i := range tests {
		t := &tests[i]
		bounded, cancel := context.WithTimeout(ctx, 10*t.takes+15*time.Second)
		_, err := runTest(bounded, dir, m, number, t)
		isLate := bounded.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return notRun
		case isLate:
			return late
		case err != nil:
			return noticed
		}
	}
	return unnoticed
}

// runTest runs a test binary with that mutant, which may take up memory or the processor without end.
func runTest(ctx context.Context, dir string, m mutant, number int, t *test) ([]byte, error) {
	seconds := 600
	if number > 0 {
		seconds = 20 + 3*int(t.cpu.Seconds())
	}
	limits := fmt.Sprintf(`ulimit -v 8000000; ulimit -t %d; exec "$0" "$@"`, seconds)
	args := append([]string{"-c", limits, t.path, "-test.failfast", "-test.timeout=0"}, t.args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = filepath.Join(t.module, t.pkg)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = overlay.Environ(number)
	if m.lua != "" {
		edited := filepath.Join(dir, filepath.Base(m.file))
		if err := os.WriteFile(edited, []byte(m.lua), 0o600); err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, luaEnv+"="+edited)
	}
	var out bytes.Buffer
	if number == 0 {
		cmd.Stdout, cmd.Stderr = &out, &out
	}
	err := cmd.Run()
	if number == 0 && err == nil {
		t.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return out.Bytes(), err
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
