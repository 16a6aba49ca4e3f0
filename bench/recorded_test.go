package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// sinceRecorded measures this tree and the recorded commit in turn, each in a process and a database of its own.
func sinceRecorded(b *testing.B, urls []string) {
	commit := testkit.Got(os.ReadFile("recorded.txt"))(b)
	old := b.TempDir()
	if out, err := exec.Command("sh", "-c", `git -C .. archive "$0" | tar -x -C "$1"`, strings.TrimSpace(string(commit)), old).CombinedOutput(); err != nil {
		b.Logf("SKIPPED, needs the history of the repository: %v\n%s", err, out)
		return
	}
	var workers []*worker
	for i, w := range []worker{{name: ours, tree: ".."}, {name: recorded, tree: old}} {
		w.start(b, i+1, urls)
		workers = append(workers, &w)
	}
	for _, callers := range []int{1, 256} {
		for round := range *rounds {
			for i := range workers {
				w := workers[(round+i)%2]
				b.Run(fmt.Sprintf("since-%d/lock=%s/round=%d", callers, w.name, round+1), func(b *testing.B) { w.measure(b, callers) })
			}
		}
	}
}

// worker is a process of the program bench/worker, built from a tree.
type worker struct {
	name, tree string
	in         io.Writer
	out        *json.Decoder
}

func (w *worker) start(b *testing.B, database int, urls []string) {
	program := filepath.Join(b.TempDir(), "worker")
	build := exec.Command("go", "build", "-C", filepath.Join(w.tree, "bench"), "-trimpath", "-o", program, "./worker")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", w.name, err, out)
	}
	cmd := exec.Command(program)
	for _, url := range urls {
		cmd.Args = append(cmd.Args, fmt.Sprint(url, "/", database))
	}
	cmd.Stderr = os.Stderr
	in, out := piped(b, cmd)
	b.Cleanup(func() { in.Close(); must(b, cmd.Wait()) })
	w.in, w.out = in, json.NewDecoder(out)
}

func (w *worker) measure(b *testing.B, callers int) {
	var answer struct { // Answer of the program
		Pairs  int
		Took   time.Duration
		Allocs uint64
	}
	fmt.Fprintln(w.in, callers, *pass/10)
	must(b, w.out.Decode(&answer))
	b.ReportMetric(float64(answer.Took)/float64(answer.Pairs), "ns/op")
	b.ReportMetric(float64(answer.Allocs)/float64(answer.Pairs), "allocs/op")
}
