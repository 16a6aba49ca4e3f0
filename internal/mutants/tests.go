//go:build unix

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/mutants/overlay"
)

// test is one test of a package.
type test struct {
	name, binary, dir string
	args              []string
	takes, cpu        time.Duration // with nothing left out
	reaches           map[int]bool  // the mutants whose code it runs; nil where that is not known

	mu      sync.Mutex
	noticed map[string]int // how many mutants of each function
}

// build compiles the tests, and runs each once with nothing left out.
func build(ctx context.Context, dir string, edited *overlay.Overlay, suites []suite) (tests []*test, err error) {
	binaries := map[string]string{}
	for _, s := range suites {
		pkg := filepath.Join(s.module, s.pkg)
		if binaries[pkg] == "" {
			binaries[pkg] = filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
			if err := edited.Compile(ctx, filepath.Join(".", s.module), s.pkg, binaries[pkg]); err != nil {
				return nil, err
			}
		}
		names, err := exec.CommandContext(ctx, binaries[pkg], "-test.list", cmp.Or(s.run, ".")).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: the list of tests: %w", pkg, err)
		}
		skip, begun, before := regexp.MustCompile(cmp.Or(s.skip, "^$")), time.Now(), len(tests)
		for name := range strings.FieldsSeq(string(names)) {
			if !strings.HasPrefix(name, "Test") || skip.MatchString(name) {
				continue
			}
			t := &test{name: name, binary: binaries[pkg], dir: pkg, noticed: map[string]int{}}
			t.args = append([]string{"-test.run=^" + name + "$", "-test.failfast", "-test.timeout=0"}, s.args...)
			if err := t.measure(ctx, filepath.Join(dir, "reached")); err != nil {
				return nil, err
			}
			tests = append(tests, t)
		}
		fmt.Printf("%s: %d tests take %v\n", pkg, len(tests)-before, time.Since(begun).Round(time.Second/10))
	}
	return tests, nil
}

// measure runs the test with nothing left out: again where other work may be why it fails.
func (t *test) measure(ctx context.Context, reached string) error {
	if err := os.WriteFile(reached, nil, 0o600); err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		begun := time.Now()
		cmd := t.command(ctx, 600, overlay.Reaching(reached))
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.takes, t.cpu = time.Since(begun), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
			break
		}
		if tries == 3 {
			return fmt.Errorf("%s: %s, with nothing left out: %w\n%s", t.dir, t.name, err, out)
		}
	}
	numbers, err := os.ReadFile(reached)
	for line := range strings.FieldsSeq(string(numbers)) {
		number, err := strconv.Atoi(line)
		if err != nil {
			return fmt.Errorf("%s: %s: what it reaches: %w", t.dir, t.name, err)
		}
		if t.reaches == nil {
			t.reaches = map[int]bool{}
		}
		t.reaches[number] = true
	}
	return err
}

// try runs the tests on the mutant of that number: first those that have noticed most mutants of its function, then the
// quick ones.
func try(ctx context.Context, dir string, m mutant, number int, tests []*test) (verdict string, err error) {
	function, noticedBy := m.file+" "+m.where, map[*test]int{}
	for _, t := range tests {
		noticedBy[t] = t.hasNoticed(function, 0)
	}
	tests = slices.SortedStableFunc(slices.Values(tests), func(a, b *test) int {
		return cmp.Or(cmp.Compare(noticedBy[b], noticedBy[a]), cmp.Compare(a.takes, b.takes))
	})
	environ := overlay.Environ(number)
	if m.lua != "" {
		edited := filepath.Join(dir, strconv.Itoa(number), filepath.Base(m.file))
		if err := os.Mkdir(filepath.Dir(edited), 0o700); err != nil {
			return notRun, err
		}
		if err := os.WriteFile(edited, []byte(m.lua), 0o600); err != nil {
			return notRun, err
		}
		environ = append(environ, luaEnv+"="+edited)
	}
	for _, t := range tests {
		if m.lua == "" && !t.reaches[number] {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, 10*t.takes+15*time.Second)
		err := t.command(bounded, 20+3*int(t.cpu.Seconds()), environ).Run()
		isLate := bounded.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return notRun, nil
		}
		if err != nil {
			t.hasNoticed(function, 1)
			if isLate {
				return late, nil
			}
			return noticed, nil
		}
	}
	return unnoticed, nil
}

// hasNoticed returns how many mutants of the function the test has noticed, with so many more.
func (t *test) hasNoticed(function string, more int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noticed[function] += more
	return t.noticed[function]
}

// command is the test in a process, which may take up memory or the processor without end.
func (t *test) command(ctx context.Context, seconds int, environ []string) *exec.Cmd {
	limits := fmt.Sprintf(`ulimit -v 8000000; ulimit -t %d; exec "$0" "$@"`, seconds)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", limits, t.binary}, t.args...)...)
	cmd.Dir, cmd.Env = t.dir, environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
