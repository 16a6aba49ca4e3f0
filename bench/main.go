// Bench measures the library beside what else a program could use, and against its own budgets, in
// one run over the same masters. It writes a report in Markdown that says for each budget whether
// it was met, with pictures. With -check it measures the budgets alone, and fails if one is far
// from met.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/quorumlock/quorumlock/bench/internal/delay"
	"github.com/quorumlock/quorumlock/bench/internal/etcd"
	"github.com/quorumlock/quorumlock/bench/internal/handoff"
)

func main() {
	if child, code := asChild(); child {
		os.Exit(code)
	}
	docs := flag.String("docs", "", "write reports/bench.md, its pictures, and the figures of scale.md into this directory")
	readme := flag.String("readme", "", "write the figures of the locks to choose from into this file")
	revision := flag.String("revision", "", "the library's revision, for the report")
	only := flag.String("only", "", "measure the tests whose name contains this")
	checking := flag.Bool("check", false, "measure the budgets alone; fail if one is missed by more than a third")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := start(ctx, *docs, *readme, *revision, *only, *checking); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// asChild does the work of a process that the bench has started as its child, if this is one.
func asChild() (child bool, code int) {
	switch {
	case handoff.IsWorker():
		return true, handoff.Work()
	case delay.IsServer():
		return true, delay.Serve()
	case etcd.IsKeeper():
		return true, etcd.Keep()
	default:
		return false, 0
	}
}

func start(ctx context.Context, docs, readme, revision, only string, checking bool) error {
	s := full()
	s.budgetsOnly = checking
	r, err := run(ctx, s, only, os.Stderr)
	if err != nil {
		return err
	}
	r.revision = revision
	if checking {
		return check(os.Stdout, lines(budgets, r.results))
	}
	return errors.Join(r.write(os.Stdout), r.save(docs), r.saveReadme(readme))
}
