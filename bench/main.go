// Bench measures the library beside go-redsync, and against its own budgets, in one run over the
// same masters. It prints a report in Markdown that tells for each budget whether it was met.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/handoff"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// mastersRun is the number of redis-server processes. A row for fewer masters uses the first ones.
const mastersRun = 5

func main() {
	if handoff.IsWorker() {
		os.Exit(handoff.Work())
	}
	out := flag.String("o", "", "also write the report to this file")
	revision := flag.String("revision", "", "the library's revision, for the report")
	only := flag.String("only", "", "measure the sections whose name contains this")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, full(), *only, os.Stderr)
	if err == nil {
		r.revision = *revision
		err = r.write(os.Stdout)
	}
	if err == nil && *out != "" {
		err = r.save(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// size is the length and the scale of each section.
type size struct {
	masters   []int // the number of masters, for rows that name N
	rounds    int
	slice     time.Duration // of one side in one round
	freezes   int
	frozen    time.Duration // of one state in one round; longer than the timeout
	passes    int           // rounds of handoffs
	pass      time.Duration
	processes int
	locks     int // held at once
	lease     time.Duration
}

func full() size {
	return size{
		masters: []int{3, 5},
		rounds:  15, slice: 120 * time.Millisecond, freezes: 5, frozen: 700 * time.Millisecond,
		passes: 2, pass: 2 * time.Second, processes: 8, locks: 100_000, lease: 15 * time.Second,
	}
}

// bench is the state that the sections share.
type bench struct {
	size
	fleet  *redistest.Fleet
	report *report
	log    io.Writer
	inUse  int // masters of the last clients: see use
}

// sections measure, and add their rows to the report.
var sections = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"pairs", (*bench).pairs},
	{"frozen", (*bench).frozenMaster},
	{"handoff", (*bench).handoffs},
	{"held", (*bench).heldLocks},
}
