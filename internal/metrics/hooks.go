package metrics

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/inside"
	nodes "github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Sink adds value to a counter, or records it in a histogram. labels are the values of m.Labels, in UTF-8;
// an empty one means no label. It is safe for concurrent use.
type Sink func(ctx context.Context, m *Metric, value float64, labels ...string)

// Feed records the metrics by hooks in a sink.
type Feed struct {
	sink  Sink
	group func(name string) string
}

// NewFeed returns a Feed that tells locks apart by group of their first name, or, where group is
// nil, not at all.
func NewFeed(sink Sink, group func(name string) string) *Feed {
	if group == nil {
		group = func(string) string { return "" }
	}
	return &Feed{func(ctx context.Context, m *Metric, value float64, labels ...string) {
		for i, label := range labels {
			labels[i] = valid(label)
		}
		sink(ctx, m, value, labels...)
	}, group}
}

// valid returns a name as UTF-8: names are any bytes, but client_golang panics at a label that is not UTF-8,
// and one such attribute stops OpenTelemetry's export. Escapes keep names apart that differ in such bytes.
func valid(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// Group returns the group of a lock's names.
func (f *Feed) Group(names []string) string { return valid(f.group(names[0])) }

// Hooks returns the hooks of a Locker.
func (f *Feed) Hooks() quorum.Hooks {
	background := context.Background()
	count := func(m *Metric, n int, labels ...string) {
		if n > 0 {
			f.sink(background, m, float64(n), labels...)
		}
	}
	return quorum.Hooks{
		Acquired: func(l *quorum.Lock) {
			// Series begin before their first event: else its rate would be missed.
			g := f.Group(l.Names())
			f.sink(background, Losses, 0, g)
			f.sink(background, Releases, 0, g)
			f.sink(background, WriteBacks, 0)
		},
		Released: func(l *quorum.Lock) { count(Releases, 1, f.Group(l.Names())) },
		Lost:     func(l *quorum.Lock, _ error) { count(Losses, 1, f.Group(l.Names())) },
		Attempt: func(ctx context.Context, e quorum.AttemptEvent) {
			f.sink(ctx, Attempt, e.Duration.Seconds(), e.Outcome, f.Group(e.Names))
			count(Votes, e.Granted, "granted")
			count(Votes, e.Refused, "refused")
			count(Votes, e.Quarantined, "quarantined")
			count(Votes, e.Unknown, "unknown")
			count(WriteBacks, e.WriteBacks)
		},
		LockEnd: func(ctx context.Context, e quorum.LockEvent) {
			f.sink(ctx, Wait, e.Duration.Seconds(), e.Outcome, f.Group(e.Names))
		},
		Renewing: func(l *quorum.Lock, left, lease time.Duration) {
			f.sink(background, Validity, max(left.Seconds()/lease.Seconds(), 0), f.Group(l.Names()))
		},
		Renewed: func(e quorum.RenewalEvent) {
			count(Renewals, e.Renewed, e.Node, "renewed")
			count(Renewals, e.Forgotten, e.Node, "forgotten")
			count(Renewals, e.Taken, e.Node, "taken")
			count(Renewals, e.Failed, e.Node, "failed")
		},
		Repaired: func(e quorum.RepairEvent) {
			result := "granted"
			if e.Err != nil {
				result = "failed"
			}
			count(Repairs, 1, e.Node, result)
		},
	}
}

// NodeHooks returns the hooks of a Locker's nodes.
func (f *Feed) NodeHooks() nodes.Hooks {
	return nodes.Hooks{
		StateChanged: func(e nodes.StateEvent) {
			f.sink(context.Background(), Changes, 1, e.Node, e.State)
		},
		ScriptEnded: func(e nodes.ScriptEvent) {
			address, port := splitAddress(e.Address)
			f.sink(context.Background(), Scripts, e.Duration.Seconds(), "redis", e.Script, address, port, kind(e.Err))
		},
	}
}

// splitAddress returns the host and the port; a socket has no port.
func splitAddress(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.HasPrefix(address, "/") {
		return address, ""
	}
	return host, port
}

func kind(err error) string {
	var failed *nodes.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed):
		return failed.Code()
	default:
		return "_OTHER"
	}
}

// Observe calls observe with each metric from Stats.
func Observe(name string, s quorum.Stats, observe func(m *Metric, value float64, labels ...string)) {
	name = valid(name)
	observe(Held, float64(s.Held), name)
	observe(Waiting, float64(s.Waiting), name)
	observe(Nodes, float64(len(s.Nodes)), name)
	observe(Quorum, float64(s.Quorum), name)
	observe(Voters, float64(s.Voters), name)
	observe(Unannounced, float64(s.Unannounced), name)
	observe(Dropped, float64(s.EventsDropped), name)
	for _, n := range s.Nodes {
		for _, is := range inside.States() {
			one := 0.
			if n.State == is {
				one = 1
			}
			observe(NodeState, one, name, valid(n.Name), is)
		}
	}
}
