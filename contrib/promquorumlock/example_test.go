package promquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumlock/quorumlock/contrib/promquorumlock"
	"github.com/quorumlock/quorumlock/quorumtest"
)

func Example() {
	ctx := context.Background()
	masters, end := quorumtest.ForExample(3)
	defer end()

	m := promquorumlock.New(promquorumlock.WithGroup(func(name string) string {
		kind, _, _ := strings.Cut(name, ":")
		return kind
	}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	locker := masters.Locker(m.Options()...) // yours: redlock.Open(urls, m.Options()...)
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
