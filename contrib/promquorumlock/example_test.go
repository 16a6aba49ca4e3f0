package promquorumlock_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumlock/quorumlock/contrib/promquorumlock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func Example() {
	masters, err := redistest.StartEmbedded(3) // your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()
	urls := []string{masters.Masters[0].URL(), masters.Masters[1].URL(), masters.Masters[2].URL()}

	m := promquorumlock.New(promquorumlock.WithGroup(func(name string) string {
		kind, _, _ := strings.Cut(name, ":")
		return kind
	}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	options := []quorum.Option{
		quorum.WithHooks(m.Hooks()),
		quorum.WithNodeOptions(node.WithHooks(m.NodeHooks()), node.WithTimeout(10*time.Second), node.WithoutQuarantine()), // for a test
	}
	locker, err := redlock.Open(urls, options...)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	m.Observe("billing", locker)

	lock, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		switch one := f.Metric[0]; f.GetName() {
		case "quorumlock_lock_wait_duration_seconds":
			fmt.Println(one.Label[0].GetValue(), one.Label[1].GetValue(), one.Histogram.GetSampleCount())
		case "quorumlock_locks_held", "quorumlock_voters":
			fmt.Println(f.GetName(), one.Gauge.GetValue())
		}
	}
	// Output:
	// invoice acquired 1
	// quorumlock_locks_held 1
	// quorumlock_voters 3
}
