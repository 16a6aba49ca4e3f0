package otelquorumlock

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/quorum"
)

const (
	outcomeKey  = attribute.Key("quorumlock.outcome")
	groupKey    = attribute.Key("quorumlock.group")
	attemptsKey = attribute.Key("quorumlock.attempts")
	probedKey   = attribute.Key("quorumlock.attempt.probed")

	grantedKey     = attribute.Key("quorumlock.votes.granted")
	refusedKey     = attribute.Key("quorumlock.votes.refused")
	quarantinedKey = attribute.Key("quorumlock.votes.quarantined")
	unknownKey     = attribute.Key("quorumlock.votes.unknown")
	writeBacksKey  = attribute.Key("quorumlock.token.write_backs")

	errorKey = attribute.Key("error.type")
)

// startSpan, addAttempt and endSpan trace a call of Lock. Errors are told by their outcome alone: their text has the names
// of locks.
func (t *Telemetry) startSpan(ctx context.Context, names []string) context.Context {
	var attributes []attribute.KeyValue
	if g := t.feed.Group(names); g != "" {
		attributes = append(attributes, groupKey.String(g))
	}
	ctx, _ = t.tracer.Start(ctx, "quorumlock.lock", trace.WithAttributes(attributes...))
	return ctx
}

func addAttempt(ctx context.Context, e quorum.AttemptEvent) {
	trace.SpanFromContext(ctx).AddEvent("quorumlock.attempt", trace.WithAttributes(
		outcomeKey.String(e.Outcome), probedKey.Bool(e.Probed),
		grantedKey.Int(e.Granted), refusedKey.Int(e.Refused), quarantinedKey.Int(e.Quarantined),
		unknownKey.Int(e.Unknown), writeBacksKey.Int(e.WriteBacks)))
}

func endSpan(ctx context.Context, e quorum.LockEvent) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(outcomeKey.String(e.Outcome), attemptsKey.Int(e.Attempts))
	switch e.Outcome {
	case "quarantined", "unavailable", "failed":
		span.SetAttributes(errorKey.String(e.Outcome))
		span.SetStatus(codes.Error, "not acquired: "+e.Outcome)
	}
	span.End()
}
