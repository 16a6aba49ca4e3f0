package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// runBound is for how long one run may take on a busy machine. Then the tests print what hangs, and end.
const runBound = 20 * time.Minute

// binary is the compiled tests of one package.
type binary struct {
	dir  string
	path string
}

// build compiles the tests in a directory.
func build(ctx context.Context, dir, path string, race bool) (*binary, error) {
	args := []string{"test", "-c", "-trimpath", "-o", path} // -trimpath: as make test compiles
	if race {
		args = append(args, "-race")
	}
	compile := exec.CommandContext(ctx, "go", append(args, ".")...)
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the tests of %s: %w\n%s", dir, err, out)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s has no tests", dir)
	}
	return &binary{dir: filepath.ToSlash(filepath.Clean(dir)), path: path}, nil
}

// run runs the tests once, shuffled.
func (b *binary) run(ctx context.Context, filter string) *result {
	began := time.Now()
	tests := exec.CommandContext(ctx, b.path,
		"-test.v=test2json", "-test.shuffle=on", "-test.timeout="+runBound.String(), "-test.run="+filter)
	tests.Dir = b.dir
	tests.Cancel = func() error { return tests.Process.Signal(syscall.SIGTERM) }
	tests.WaitDelay = 10 * time.Second // those of a command may wait for the signal themselves
	printed, err := tests.CombinedOutput()
	took := time.Since(began)
	// As a parent of the tests, test2json would make them ignore SIGINT, as it does.
	toJSON := exec.CommandContext(ctx, "go", "tool", "test2json")
	toJSON.Stdin = bytes.NewReader(printed)
	out, failed := toJSON.Output()
	err = cmp.Or(err, failed)
	r := parse(out)
	r.dir, r.took = b.dir, took
	if err == nil {
		err = r.nothingRan(filter)
	}
	if err != nil && len(r.failures) == 0 {
		r.failures = append(r.failures, failure{test: wholePackage, text: fmt.Sprintf("%v\n%s", err, lastOf(printed))})
	}
	return r
}

// lastOf returns what tells why a process ended without a test that failed: from a panic, a fatal
// error of the runtime's or a signal to the end, or else the last lines.
func lastOf(printed []byte) []byte {
	const end = 6000
	for _, mark := range []string{"panic: ", "fatal error: ", "SIG"} {
		if at := bytes.Index(printed, []byte("\n"+mark)); at >= 0 {
			return printed[at+1 : min(at+1+end, len(printed))]
		}
	}
	return printed[max(0, len(printed)-end):]
}
