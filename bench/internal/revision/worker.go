package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// startBound is for how long a busy machine may take to start a program.
const startBound = time.Minute

// Worker is a running program over masters that no other process uses.
type Worker struct {
	masters []*redistest.Master
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// Start starts the program with that many callers.
func Start(ctx context.Context, program string, callers int, masters []*redistest.Master) (*Worker, error) {
	args := []string{strconv.Itoa(callers)}
	for _, m := range masters {
		args = append(args, m.URL())
	}
	w := &Worker{masters: masters, cmd: exec.CommandContext(ctx, program, args...)}
	said := &child.Output{}
	w.cmd.Stderr = said
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, w.in.Close())
	}
	w.out = json.NewDecoder(said.Tee(out))
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	var ready string
	err = child.Await(w.cmd, said, startBound, "revision: the program starts", func() error { return w.out.Decode(&ready) })
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Run lets the callers lock and unlock for that long.
func (w *Worker) Run(length time.Duration) (measure.Sample, error) {
	before, err := measure.Look(w.masters)
	if err != nil {
		return measure.Sample{}, err
	}
	var answer struct {
		Pairs, Failed int
		Failure       string
		Elapsed, CPU  time.Duration
	}
	if _, err := fmt.Fprintln(w.in, length); err != nil {
		return measure.Sample{}, err
	}
	if err := w.out.Decode(&answer); err != nil {
		return measure.Sample{}, fmt.Errorf("revision: the program ended: %w", err)
	}
	after, err := measure.Look(w.masters)
	if err != nil {
		return measure.Sample{}, err
	}
	if answer.Pairs == 0 {
		return measure.Sample{}, fmt.Errorf("revision: not a single lock in %v: %s", length, answer.Failure)
	}
	used := after.Since(before)
	used.Callers = answer.CPU
	return measure.Sample{Pairs: answer.Pairs, Failed: answer.Failed, Failure: errors.New(answer.Failure),
		Elapsed: answer.Elapsed, Usage: used}, nil
}

// Close ends the program.
func (w *Worker) Close() error {
	closed := w.in.Close()
	return errors.Join(w.cmd.Wait(), closed)
}
