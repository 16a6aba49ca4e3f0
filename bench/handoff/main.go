// Handoff measures how fast a lock passes from one process to the next, beside redsync: see -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/handoff"
	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

func main() {
	if handoff.IsWorker() {
		os.Exit(handoff.Work())
	}
	var plan handoff.Plan
	flag.IntVar(&plan.Contenders, "contenders", 8, "contenders, over all processes")
	flag.IntVar(&plan.Processes, "processes", 8, "processes")
	flag.IntVar(&plan.Locks, "locks", 1, "locks, one for each contender: "+
		"with 2 contenders for each lock, -hold 260ms and -away 260ms measure the wake-up alone")
	flag.DurationVar(&plan.Hold, "hold", time.Millisecond, "how long a contender holds the lock")
	flag.DurationVar(&plan.Away, "away", 5*time.Millisecond, "how long a contender stays away after it; "+
		"with 0 it asks again at once, and its process may regain a lock that others wait for")
	flag.DurationVar(&plan.For, "for", 2*time.Second, "length of a round")
	n := flag.Int("n", 3, "masters")
	rounds := flag.Int("rounds", 3, "rounds of each peer, in turns")
	only := flag.String("peer", "", "measure this peer alone: quorumlock or redsync")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, plan, *n, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plan handoff.Plan, n, rounds int, only string) (err error) {
	peers := handoff.Peers
	if only != "" {
		peers = []string{only}
	}
	fleet, err := redistest.StartReal(n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	fmt.Printf("%d %s, %d contenders in %d processes for %d locks, held for %v, then away for %v, %d rounds of %v\n",
		n, fleet.Kind, plan.Contenders, plan.Processes, plan.Locks, plan.Hold, plan.Away, rounds, plan.For)
	all, err := measure.Alternate(len(peers), rounds, func(side int) (handoff.Round, error) {
		return plan.Run(ctx, peers[side], fleet.Masters)
	})
	if err != nil {
		return err
	}
	for i, name := range peers {
		fmt.Printf("%-10s  %v\n", name, handoff.Sum(all[i]))
	}
	return nil
}
