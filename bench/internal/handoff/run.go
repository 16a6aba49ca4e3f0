package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	startAfter = 50 * time.Millisecond // from the last ready worker, so that the start reaches all of them
	overtime   = 30 * time.Second      // for starting and for the accounts
)

// Run starts the processes, lets them contend over the masters, and judges their accounts. Nothing
// else may use the masters meanwhile: Run reads their usage.
func (p Plan) Run(ctx context.Context, peer string, all []*redistest.Master) (Round, error) {
	var urls []string
	for _, m := range all {
		urls = append(urls, m.URL())
	}
	return p.RunOn(ctx, peer, urls, func() (measure.Usage, error) { return measure.Look(all) })
}

// RunOn is Run over any servers. look reads their usage.
func (p Plan) RunOn(
	ctx context.Context, peer string, urls []string, look func() (measure.Usage, error),
) (Round, error) {
	if p.Processes < 1 || p.Contenders < p.Processes || p.Locks < 1 {
		return Round{}, fmt.Errorf("handoff: %d contenders in %d processes for %d locks: "+
			"want at least one lock, and a contender in each process", p.Contenders, p.Processes, p.Locks)
	}
	// A process has at most one contender more than another, and consecutive ones have different locks.
	if most := (p.Contenders + p.Processes - 1) / p.Processes; peer == Etcd && most > p.Locks {
		return Round{}, fmt.Errorf("handoff: %d contenders in %d processes for %d locks: "+
			"two of one process would contend for one lock, and etcd's session lets both hold it",
			p.Contenders, p.Processes, p.Locks)
	}
	ctx, cancel := context.WithTimeout(ctx, p.For+overtime)
	defer cancel()
	workers, err := p.startWorkers(ctx, peer, urls)
	accounts := make([]account, len(workers))
	var before, after measure.Usage
	if err == nil {
		before, err = look()
	}
	s := start{From: now().add(startAfter)}
	s.To = s.From.add(p.For)
	for _, w := range workers {
		if err == nil {
			err = json.NewEncoder(w.in).Encode(s)
		}
	}
	for i, w := range workers {
		if err == nil {
			err = child.Await(w.cmd, w.said, p.For+overtime, "handoff: a worker's account", func() error { return w.out.Decode(&accounts[i]) })
		}
	}
	if err == nil {
		after, err = look()
	}
	for _, w := range workers {
		err = errors.Join(err, w.end())
	}
	if err != nil {
		return Round{}, err
	}
	return judge(p, peer, accounts, after.Since(before)), nil
}

// worker is a started process.
type worker struct {
	cmd  *exec.Cmd
	said *child.Output
	in   io.WriteCloser
	out  *json.Decoder
}

// startWorkers returns the started workers once they are ready; on an error, those that were
// started.
func (p Plan) startWorkers(ctx context.Context, peer string, urls []string) (workers []*worker, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := task{Peer: peer, URLs: urls, Locks: p.Locks, Hold: p.Hold, Away: p.Away,
		Name: fmt.Sprintf("bench:handoff:%s:%d", peer, now())}
	for i := range p.Processes {
		t.Process, t.Contenders = i, p.Contenders/p.Processes
		if i < p.Contenders%p.Processes {
			t.Contenders++
		}
		w, err := startWorker(ctx, program, t)
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
		t.First += t.Contenders
	}
	for _, w := range workers {
		var ready string
		err := child.Await(w.cmd, w.said, overtime, "handoff: a worker starts", func() error { return w.out.Decode(&ready) })
		if err != nil {
			return workers, err
		}
	}
	return workers, nil
}

func startWorker(ctx context.Context, program string, t task) (*worker, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	said := &child.Output{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return &worker{cmd: cmd, said: said, in: in, out: json.NewDecoder(said.Tee(out))}, cmd.Start()
}

// end waits for a worker that is done. A worker that still waits for its start ends when its pipe
// closes.
func (w *worker) end() error {
	closed := w.in.Close()
	return errors.Join(w.cmd.Wait(), closed)
}
