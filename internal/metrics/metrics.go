// Package metrics defines what otelquorumlock and promquorumlock measure: each metric once, and
// what the hooks add to it. The two are adapters of [Sink].
package metrics

// Kind is what a metric is.
type Kind int

const (
	Counter   Kind = iota // by hooks
	Histogram             // by hooks
	Gauge                 // from quorum.Locker.Stats, when it is read
	Level                 // as a Gauge; several processes' values can be added
	Total                 // as a Gauge, but it only rises
)

// Metric is one metric, in the terms of OpenTelemetry. Prometheus' name has underscores, the unit s
// as "_seconds", and "_total" for what only rises: see [Metric.PrometheusName].
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string
	Help   string
	Labels []string  // the attributes, in the order of the values that a Sink is given
	Bounds []float64 // of a histogram
}

// Attributes of several metrics.
const (
	group   = "quorumlock.group"
	outcome = "quorumlock.outcome"
	node    = "quorumlock.node"
	state   = "quorumlock.state"
	locker  = "quorumlock.locker"
)

var (
	// seconds has the bounds of the semantic conventions for database clients, with finer ones
	// below: a script on loopback takes 50 µs.
	seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	// waits reach from a free lock to a lock that is held for long.
	waits = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	// parts has a quarter, by which alerts go, and the two thirds at which a healthy lock is
	// renewed.
	parts = []float64{0, .05, .1, .15, .2, .25, .3, .4, .5, .6, .65, .7, .8, 1}
)

// By hooks.
var (
	Wait = add(Metric{"quorumlock.lock.wait.duration", Histogram, "s",
		"Time from a call of Lock, TryLock or Do until it has the lock or gives up.", []string{outcome, group}, waits})
	Attempt = add(Metric{"quorumlock.attempt.duration", Histogram, "s",
		"Time of one attempt, from the first request until it is a lock or is undone.", []string{outcome, group}, seconds})
	Votes = add(Metric{"quorumlock.attempt.votes", Counter, "{vote}",
		"Nodes' answers to attempts: granted, refused, quarantined or unknown.", []string{"quorumlock.vote"}, nil})
	WriteBacks = add(Metric{"quorumlock.token.write_backs", Counter, "{node}",
		"Nodes to which an attempt wrote its token back, because their counters stood lower.", nil, nil})
	Releases = add(Metric{"quorumlock.lock.releases", Counter, "{lock}", "Locks that were unlocked.", []string{group}, nil})
	Losses   = add(Metric{"quorumlock.lock.losses", Counter, "{lock}",
		"Locks that were lost while they were held, by a max hold too.", []string{group}, nil})
	Validity = add(Metric{"quorumlock.lock.validity", Histogram, "1",
		"Part of the lease that a held lock is still valid for when its renewals go out: 0.66 is healthy, 0 is lost.",
		[]string{group}, parts})
	Renewals = add(Metric{"quorumlock.lock.renewals", Counter, "{lock}",
		"Renewals by node: renewed, forgotten, taken by another owner, or failed.", []string{node, outcome}, nil})
	Repairs = add(Metric{"quorumlock.lock.repairs", Counter, "{lock}",
		"Nodes that were asked to grant a held lock again: granted or failed.", []string{node, outcome}, nil})
	Changes = add(Metric{"quorumlock.node.changes", Counter, "{change}",
		"Changes of a node's state, by the new state.", []string{node, state}, nil})
	Scripts = add(Metric{"db.client.operation.duration", Histogram, "s",
		"Time of one script on one master, with the wait in the client's queue and for the connection.",
		[]string{"db.system.name", "db.operation.name", "server.address", "server.port", "error.type"}, seconds})
)

// From quorum.Locker.Stats.
var (
	Held = add(Metric{"quorumlock.locks.held", Level, "{lock}",
		"Locks that the process keeps on the masters.", []string{locker}, nil})
	Waiting = add(Metric{"quorumlock.calls.waiting", Level, "{call}",
		"Calls of Lock and Do that have not acquired the lock yet.", []string{locker}, nil})
	Nodes  = add(Metric{"quorumlock.nodes", Gauge, "{node}", "Masters of the locker.", []string{locker}, nil})
	Quorum = add(Metric{"quorumlock.quorum", Gauge, "{node}",
		"Masters that must grant a lock.", []string{locker}, nil})
	Voters = add(Metric{"quorumlock.voters", Gauge, "{node}",
		"Masters that can grant, by what the process knows: those that are up.", []string{locker}, nil})
	NodeState = add(Metric{"quorumlock.node.state", Gauge, "{node}",
		"1 for the state that a master is in, 0 for the others.", []string{locker, node, state}, nil})
	Unannounced = add(Metric{"quorumlock.releases.unannounced", Total, "{release}",
		"Releases that a master carried out but could not publish, because the user may not: waiters poll.", []string{locker}, nil})
	Dropped = add(Metric{"quorumlock.events.dropped", Total, "{event}",
		"Events that were not measured, because hooks were too slow.", []string{locker}, nil})
)

var all []*Metric

func add(m Metric) *Metric {
	all = append(all, &m)
	return &m
}

// All returns all metrics, by hooks first.
func All() []*Metric { return all }
