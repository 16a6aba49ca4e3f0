package main

import (
	"fmt"
	"runtime"
	"strings"
)

// readmeRow is a row of README's table of figures: one reading of each side, in one test.
type readmeRow struct {
	what, test string
	figure     figure
	higher     bool // the higher, the better
}

var readmeRows = []readmeRow{
	{"1 caller", etcdOne, rate, true},
	{"16 callers", etcdSome, rate, true},
	{"256 callers", etcdMany, rate, true},
	{"contended: idle between two holders, p50", etcdCrowd, p50, false},
	{"the same, p99", etcdCrowd, p99, false},
}

// saveReadme writes the figures beside etcd into a file that has a place for them. It does nothing without a
// path.
func (r *report) saveReadme(path string) error {
	if path == "" {
		return nil
	}
	return saveFigures(path, r.readmeFigures())
}

// readmeFigures is empty if any of them was not measured.
func (r *report) readmeFigures() string {
	const n = 3
	var b strings.Builder
	for _, row := range readmeRows {
		o := r.results[place{row.test, n}]
		if o == nil {
			return ""
		}
		fast, slow := reading{ours, row.figure}, reading{etcdServer, row.figure}
		if !row.higher {
			fast, slow = slow, fast
		}
		times, measured := o.ratio(fast, slow)
		if !measured {
			return ""
		}
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, side := range []string{ours, rival, oneMaster, etcdServer} {
			fmt.Fprintf(&b, " %s |", o.text(reading{side, row.figure}))
		}
		fmt.Fprintf(&b, " %.1f × as fast |\n", times)
	}
	return fmt.Sprintf("| lock and unlock | quorumlock | go-redsync | bsm/redislock | etcd | quorumlock : etcd |\n"+
		"|---|---|---|---|---|---|\n%s\n"+
		"[Measured](docs/reports/bench.md#how-it-is-measured) %s in turns on %d CPUs, shared by callers and servers: "+
		"%d servers each, 1 for bsm/redislock; %s. The ratio is the median of the rounds' own.%s\n", &b, r.began.UTC().Format("2006-01-02"),
		runtime.NumCPU(), n, r.etcd, loadText(r.load))
}

func loadText(load string) string {
	if load == "" {
		return ""
	}
	return " Load average before: " + load + "."
}
