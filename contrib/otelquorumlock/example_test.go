package otelquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock/contrib/otelquorumlock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func Example() {
	ctx := context.Background()
	masters, err := redistest.StartEmbedded(3) // your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()
	urls := []string{masters.Masters[0].URL(), masters.Masters[1].URL(), masters.Masters[2].URL()}

	spans := tracetest.NewInMemoryExporter() // your exporter
	t, err := otelquorumlock.New(
		otelquorumlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))),
		otelquorumlock.WithGroup(func(name string) string {
			kind, _, _ := strings.Cut(name, ":")
			return kind
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	locker, err := redlock.Open(urls, quorum.WithHooks(t.Hooks()),
		quorum.WithNodeOptions(node.WithHooks(t.NodeHooks()), node.WithTimeout(10*time.Second), node.WithoutQuarantine())) // for a test
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	t.Observe("billing", locker)

	lock, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
		for _, a := range s.Attributes {
			fmt.Println(" ", a.Key, a.Value.String())
		}
	}
	// Output:
	// quorumlock.lock
	//   quorumlock.group invoice
	//   quorumlock.outcome acquired
	//   quorumlock.attempts 1
}
