package masters

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/looks"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// rateTime is the least time between two looks by which check compares the rates of clocks.
const rateTime = 400 * time.Millisecond

// compareRates looks at the masters once more, and records which clocks do not run at this machine's rate.
func compareRates(ctx context.Context, nodes []*node.Node, found []Finding) {
	again := Each(ctx, nodes, func(ctx context.Context, i int, n *node.Node) (l looks.Look) {
		first := found[i].Look()
		if first.View == nil || !Sleep(ctx, rateTime-clock.System().Now().Sub(first.Sent)) {
			return l
		}
		l.Sent = clock.System().Now()
		if r := inside.Of(n).Pipe("").Do(ctx, scripts.Look()); r.Err == nil {
			l.View, l.Came = membership.Read(*r.Reply.Look, 0), clock.System().Now()
		}
		return l
	})
	for i := range found {
		found[i].rate = wrongRate(found[i].Look(), again[i])
	}
}

// Look returns when the master was looked at, and what it said.
func (f Finding) Look() looks.Look { return inside.Of(f.Report) }

// CompareRate notes whether the master's clock has run as this machine's since an earlier look.
func (f *Finding) CompareRate(since looks.Look) { f.rate = wrongRate(since, f.Look()) }

// Clock says what is wrong with the master's clock; nothing if it is right.
func (f Finding) Clock() string {
	if f.rate != "" {
		return f.rate
	}
	for _, hazard := range f.Report.Hazards {
		if strings.HasPrefix(hazard, "its clock ") {
			return hazard
		}
	}
	return ""
}

// wrongRate says that a master's clock was set back in its quarantine, or by how much it has gained or lost since an earlier
// look, beyond the difference of rates that leases allow for; nothing if it has not.
func wrongRate(since, now looks.Look) string {
	if now.View != nil && now.View.Quarantine() > now.View.MaxLease() {
		return "its clock was set back, and its quarantine lasts until that is made up for, or starts over with a client's next " +
			"lock: quorumlock run NAME -- true"
	}
	gain, elapsed := now.Gained(since)
	verb, effect := "gained", "leases end early"
	if gain < 0 {
		gain, verb, effect = -gain, "lost", "leases end late"
	}
	if gain <= clock.Drift(elapsed, clock.DefaultDriftFactor) {
		return ""
	}
	return fmt.Sprintf("its clock %s %v on this machine's within %v: it was set, or runs at another rate, and %s",
		verb, round(gain), round(elapsed), effect)
}

func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
