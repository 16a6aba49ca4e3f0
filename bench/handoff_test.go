package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// plan is which contenders contend for which locks: contender i for lock i mod Locks. Each process is this program,
// started again.
type plan struct {
	name       string
	Contenders int // of each process
	Locks      int
	Hold, Away time.Duration // how long a contender holds the lock, and then stays away
}

const processes = 8

var plans = []plan{
	// Newcomers find the lock free, and take it.
	{"crowd", 1, 1, time.Millisecond, 5 * time.Millisecond},
	// Two contenders of each lock, in different processes, hold and stay away for longer than any sleep between attempts:
	// only the waiter can take the lock.
	{"waiter", 16, 64, 260 * time.Millisecond, 260 * time.Millisecond},
}

// handoffs measures for how long a lock lies idle between two holders of different processes, compared with our uncontended pair.
func handoffs(b *testing.B, masters []*redistest.Master, all []*running) {
	pair := &running{opened: all[0].opened, side: side{name: onePair}, names: all[0].names}
	all = append([]*running{pair}, all...)
	for _, p := range plans {
		turns(b, p.name, max(1, *rounds/5), all, func(b *testing.B, r *running) {
			if r == pair {
				r.pairs(b, 1, masters)
			} else {
				p.run(b, r)
			}
		})
		all = append(all[:2], &running{side: bareSide, urls: all[1].urls}) // the other plan is for our budgets alone
	}
}

// workVariable marks a process as a worker, and holds its task.
const workVariable = "QUORUMLOCK_BENCH_WORK"

type task struct {
	plan
	Lock, Name     string
	URLs           []string
	Process, First int // number of the process, and of its first contender
	For            time.Duration
}

// hold is one hold of a lock: instants of the machine's monotonic clock. One that was never acquired has zeros.
type hold struct {
	Lock, Process             int
	Asked, Acquired, Released int64
}

func (p plan) run(b *testing.B, r *running) {
	var idle []time.Duration
	for tries := 0; len(idle) == 0 && tries < 5; tries++ { // on a busy machine a short pass may end before there is one
		idle = p.pass(b, r)
	}
	b.ReportMetric(0, "ns/op") // it is the length of a round
	b.ReportMetric(float64(len(idle)), "handoffs")
	if len(idle) > 0 {
		percentiles(b, idle)
	}
}

// pass has the contenders lock for the length of a pass, and returns how long each lock was idle between two of them.
func (p plan) pass(b *testing.B, r *running) []time.Duration {
	ctx, cancel := context.WithTimeout(b.Context(), *pass+2*startBound)
	defer cancel()
	name := fmt.Sprintf("bench:handoff:%d", contender.Now())
	var all []hold
	var starts []io.Writer
	var outs []*json.Decoder
	for i := range processes {
		text := testkit.Got(json.Marshal(task{p, r.name, name, r.urls, i, i * p.Contenders, *pass}))(b)
		worker := exec.CommandContext(ctx, os.Args[0])
		worker.Env, worker.Stderr = append(os.Environ(), workVariable+"="+string(text)), os.Stderr
		start, out := piped(b, worker)
		defer worker.Wait()
		starts, outs = append(starts, start), append(outs, json.NewDecoder(out))
	}
	for _, out := range outs {
		var ready bool
		must(b, out.Decode(&ready))
	}
	for _, start := range starts {
		testkit.Got(start.Write([]byte("\n")))(b)
	}
	for _, out := range outs {
		var holds []hold
		must(b, out.Decode(&holds))
		all = append(all, holds...)
	}
	idle, overlaps := judge(all)
	testkit.Check(b, overlaps == 0, "%s was held by two %d times", r.name, overlaps)
	return idle
}

// piped starts a process, and returns its input and its output.
func piped(b *testing.B, cmd *exec.Cmd) (io.WriteCloser, io.Reader) {
	in := testkit.Got(cmd.StdinPipe())(b)
	out := testkit.Got(cmd.StdoutPipe())(b)
	must(b, cmd.Start())
	return in, out
}

// judge returns the idle times of locks that passed to another process while one wanted them, be it to a waiter or to a
// newcomer, and how often a lock was acquired before its last holder released it.
func judge(all []hold) (idle []time.Duration, overlaps int) {
	locks := map[int][]hold{}
	for _, h := range all {
		locks[h.Lock] = append(locks[h.Lock], h)
	}
	for _, holds := range locks {
		held := slices.DeleteFunc(slices.Clone(holds), func(h hold) bool { return h.Acquired == 0 })
		slices.SortFunc(held, func(a, b hold) int { return cmp.Compare(a.Acquired, b.Acquired) })
		for i := 1; i < len(held); i++ {
			last, next := held[i-1], held[i]
			wanted := slices.ContainsFunc(holds, func(h hold) bool {
				return h.Process != last.Process && h.Asked <= last.Released && (h.Acquired == 0 || h.Acquired > last.Released)
			})
			switch {
			case next.Acquired < last.Released:
				overlaps++
			case wanted && next.Process != last.Process:
				idle = append(idle, time.Duration(next.Acquired-last.Released))
			}
		}
	}
	return idle, overlaps
}

// work does a task, and returns the exit code. It starts on demand, and ends if its parent does.
func work(text string) int {
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.do(bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "worker of %s: %v\n", t.Lock, err)
		return 1
	}
	return 0
}

func (t task) do(in *bufio.Reader, out *json.Encoder) error {
	all := append(slices.Clone(sides), bareSide)
	i := slices.IndexFunc(all, func(s side) bool { return s.name == t.Lock })
	o, err := all[i].open(t.URLs, true)
	if err != nil {
		return err
	}
	defer o.close()
	lock, err := o.lock(context.Background(), fmt.Sprint(t.Name, ":warm-up:", t.Process)) // connections are made
	if err != nil {
		return err
	}
	if err := lock.Unlock(context.Background()); err != nil {
		return err
	}
	if err := out.Encode(true); err != nil {
		return err
	}
	if _, err := in.ReadByte(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.For)
	defer cancel()
	holds := make([][]hold, t.Contenders)
	var contenders sync.WaitGroup
	for i := range holds {
		contenders.Go(func() {
			time.Sleep(rand.N(t.Hold + t.Away)) // contenders that start at one instant would stay in step
			for ctx.Err() == nil {
				holds[i] = append(holds[i], t.contend(ctx, o, (t.First+i)%t.Locks))
			}
		})
	}
	contenders.Wait()
	return out.Encode(slices.Concat(holds...))
}

func (t task) contend(ctx context.Context, o opened, number int) hold {
	h := hold{Lock: number, Process: t.Process, Asked: contender.Now()}
	lock, err := o.lock(ctx, fmt.Sprint(t.Name, ":", number))
	if err == nil {
		h.Acquired = contender.Now()
		time.Sleep(t.Hold)
		h.Released = contender.Now()
		err = lock.Unlock(context.WithoutCancel(ctx))
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "worker of %s: %v\n", t.Lock, err)
	}
	select {
	case <-time.After(t.Away):
	case <-ctx.Done():
	}
	return h
}
