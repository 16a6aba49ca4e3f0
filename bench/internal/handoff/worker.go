package handoff

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

// taskVariable marks a process as a worker, and holds its task.
const taskVariable = "QUORUMLOCK_BENCH_WORKER"

// IsWorker reports whether [Plan.Run] of another process started this one. Its main must then call
// [Work] before anything else, and exit.
func IsWorker() bool { return os.Getenv(taskVariable) != "" }

// Work runs the parent's task, and returns the exit code.
func Work() int {
	if err := work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func work(in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(taskVariable)), &t); err != nil {
		return err
	}
	peer, err := open(t.Peer, t.URLs)
	if err != nil {
		return err
	}
	defer peer.Close()
	// The connections are made before the start.
	if err := warmUp(peer, fmt.Sprintf("%s:warm-up:%d", t.Name, t.Process)); err != nil {
		return err
	}
	warm := peer.attempts()

	if err := json.NewEncoder(out).Encode("ready"); err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var s start
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.To.until())
	defer cancel()
	// The parent keeps the pipe open as long as it lives.
	go func() {
		lines.ReadByte()
		cancel()
	}()
	before, err := measure.OwnCPU()
	if err != nil {
		return err
	}
	a := t.contend(ctx, peer, s)
	after, err := measure.OwnCPU()
	if err != nil {
		return err
	}
	a.Attempts, a.CPU = peer.attempts()-warm, after-before
	return json.NewEncoder(out).Encode(a)
}

func warmUp(peer contended, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	release, err := peer.acquire(ctx, name)
	if err != nil {
		return err
	}
	return release(ctx)
}

// contend runs the contenders of this process.
func (t task) contend(ctx context.Context, peer contended, s start) account {
	a := account{Process: t.Process}
	holds, failures := make([][]hold, t.Contenders), make([][]string, t.Contenders)
	var contenders sync.WaitGroup
	for i := range t.Contenders {
		contenders.Go(func() {
			// Spread out: contenders that start at one instant would stay in step.
			time.Sleep(s.From.until() + rand.N(t.Hold+t.Away+1))
			holds[i], failures[i] = t.contendAs(ctx, peer, t.First+i)
		})
	}
	contenders.Wait()
	a.Holds, a.Failures = slices.Concat(holds...), slices.Concat(failures...)
	return a
}

func (t task) contendAs(ctx context.Context, peer contended, contender int) (holds []hold, failures []string) {
	name := fmt.Sprintf("%s:%d", t.Name, contender%t.Locks)
	for ctx.Err() == nil {
		h := hold{Contender: contender, Asked: now()}
		release, err := peer.acquire(ctx, name)
		if err != nil {
			if ctx.Err() == nil {
				failures = append(failures, "lock: "+err.Error())
			} else {
				holds = append(holds, h)
			}
			continue
		}
		h.Acquired = now()
		time.Sleep(t.Hold)
		h.Released = now()
		if err := release(context.WithoutCancel(ctx)); err != nil {
			failures = append(failures, "unlock: "+err.Error())
		}
		holds = append(holds, h)
		select {
		case <-time.After(t.Away):
		case <-ctx.Done():
		}
	}
	return holds, failures
}
