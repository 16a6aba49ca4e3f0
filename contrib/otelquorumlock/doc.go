// Package otelquorumlock measures and traces locks by OpenTelemetry's API and conventions. The
// program chooses the SDK and the exporter.
//
//	t, err := otelquorumlock.New(otelquorumlock.WithGroup(func(name string) string {
//		kind, _, _ := strings.Cut(name, ":") // "invoice:42" is one of the group "invoice"
//		return kind
//	}))
//	if err != nil {
//		return err
//	}
//	defer t.Close()
//	locker, err := redlock.Open(urls, t.Options()...)
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	t.Observe("billing", locker)
//
// The names of locks appear in no attribute, unless a group returns one. A name that is not UTF-8 appears with its
// bytes as "\xff".
//
//	metric                         instrument     unit        attributes
//	quorumlock.lock.wait.duration  histogram      s           quorumlock.outcome, quorumlock.group
//	quorumlock.attempt.duration    histogram      s           quorumlock.outcome, quorumlock.group
//	quorumlock.attempt.votes       counter        {vote}      quorumlock.vote
//	quorumlock.token.write_backs   counter        {node}
//	quorumlock.lock.releases       counter        {lock}      quorumlock.group
//	quorumlock.lock.losses         counter        {lock}      quorumlock.group
//	quorumlock.lock.validity       histogram      1           quorumlock.group
//	quorumlock.lock.renewals       counter        {lock}      quorumlock.node, quorumlock.outcome
//	quorumlock.lock.repairs        counter        {lock}      quorumlock.node, quorumlock.outcome
//	quorumlock.node.changes        counter        {change}    quorumlock.node, quorumlock.state
//	db.client.operation.duration   histogram      s           db.system.name ("redis"), db.operation.name,
//	                                                          server.address, server.port, error.type
//	quorumlock.locks.held          updowncounter  {lock}      quorumlock.locker
//	quorumlock.calls.waiting       updowncounter  {call}      quorumlock.locker
//	quorumlock.nodes               gauge          {node}      quorumlock.locker
//	quorumlock.quorum              gauge          {node}      quorumlock.locker
//	quorumlock.voters              gauge          {node}      quorumlock.locker
//	quorumlock.node.state          gauge          {node}      quorumlock.locker, quorumlock.node,
//	                                                          quorumlock.state
//	quorumlock.releases.unannounced
//	                               counter        {release}   quorumlock.locker
//	quorumlock.events.dropped      counter        {event}     quorumlock.locker
//
// Package promquorumlock explains them. An operation is one script on one master; its duration has
// the wait in the client's queue. Those from quorumlock.locks.held on are of Lockers given to
// [Telemetry.Observe].
//
// A call that acquires (see [quorum.Hooks]) is a span, quorumlock.lock, with an event for each attempt. Its context is
// not the lock's: spans of the work are siblings of it. The span ends when the call returns; for Do it ends before the
// work begins. Re-entry has no span.
package otelquorumlock
