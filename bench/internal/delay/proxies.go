// Package delay puts a delay in front of servers. The proxies (toxiproxy) are in a process of their
// own, so that the callers' processor time is without theirs.
package delay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// variable marks a process as the proxies', and holds its task.
const variable = "QUORUMLOCK_BENCH_DELAY"

// startBound is for how long a busy machine may take to start the process.
const startBound = time.Minute

// task is what the process is to do.
type task struct {
	Upstreams []string
	Delay     time.Duration
}

// Proxies are a running process with one proxy in front of each master.
type Proxies struct {
	URLs []string

	cmd *exec.Cmd
	in  io.WriteCloser
}

// Start starts this program again as the proxies: its main must call [Serve] if [IsServer].
// Replies take longer by delay, in whole milliseconds.
func Start(ctx context.Context, masters []*redistest.Master, delay time.Duration) (*Proxies, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := task{Delay: delay}
	for _, m := range masters {
		t.Upstreams = append(t.Upstreams, m.Addr())
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	p := &Proxies{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	said := &child.Output{}
	p.cmd.Stderr = said
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, p.in.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	err = child.Await(p.cmd, said, startBound, "delay: the proxies start", func() error {
		line, err := bufio.NewReader(said.Tee(out)).ReadBytes('\n')
		if err != nil {
			return err
		}
		return json.Unmarshal(line, &p.URLs)
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close ends the process.
func (p *Proxies) Close() error {
	closed := p.in.Close()
	return errors.Join(p.cmd.Wait(), closed)
}
