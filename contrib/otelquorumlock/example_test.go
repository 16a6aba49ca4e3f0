package otelquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/quorumlock/contrib/otelquorumlock"
	"github.com/quorumlock/quorumlock/quorumtest"
)

func Example() {
	ctx := context.Background()
	masters, end := quorumtest.ForExample(3)
	defer end()

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
	locker := masters.Locker(t.Options()...) // yours: redlock.Open(urls, t.Options()...)
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
