// Package promquorumlock measures locks for Prometheus.
//
//	m := promquorumlock.New(promquorumlock.WithGroup(func(name string) string {
//		kind, _, _ := strings.Cut(name, ":") // "invoice:42" is one of the group "invoice"
//		return kind
//	}))
//	prometheus.MustRegister(m)
//	locker, err := redlock.Open(urls, m.Options()...)
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	m.Observe("billing", locker)
//
// The names of locks appear in no label, unless a group returns one. A name that is not UTF-8 appears with its
// bytes as "\xff".
//
//	metric                                    type       labels                              what
//	quorumlock_lock_wait_duration_seconds     histogram  quorumlock_outcome, _group          a call that acquires (Lock, ...)
//	quorumlock_attempt_duration_seconds       histogram  quorumlock_outcome, _group          one attempt of such a call
//	quorumlock_attempt_votes_total            counter    quorumlock_vote                     nodes' answers to attempts
//	quorumlock_token_write_backs_total        counter                                        nodes that a token was written back to
//	quorumlock_lock_releases_total            counter    quorumlock_group                    locks unlocked
//	quorumlock_lock_losses_total              counter    quorumlock_group                    locks lost, also by a max hold
//	quorumlock_lock_validity                  histogram  quorumlock_group                    part of the lease left when renewed
//	quorumlock_lock_renewals_total            counter    quorumlock_node, _outcome           renewals by node and outcome
//	quorumlock_lock_repairs_total             counter    quorumlock_node, _outcome           held locks granted again
//	quorumlock_node_changes_total             counter    quorumlock_node, _state             changes to a state
//	db_client_operation_duration_seconds      histogram  db_system_name, db_operation_name,  one script on one master, with the client's queue
//	                                                     server_address, server_port,
//	                                                     error_type
//	quorumlock_locks_held                     gauge      quorumlock_locker                   locks kept on the masters
//	quorumlock_calls_waiting                  gauge      quorumlock_locker                   calls that wait for a lock
//	quorumlock_nodes                          gauge      quorumlock_locker                   masters
//	quorumlock_quorum                         gauge      quorumlock_locker                   masters that make a lock
//	quorumlock_voters                         gauge      quorumlock_locker                   masters that can grant
//	quorumlock_node_state                     gauge      quorumlock_locker, _node, _state    1 for the master's state, 0 for others
//	quorumlock_releases_unannounced_total     counter    quorumlock_locker                   releases that a master could not publish
//	quorumlock_events_dropped_total           counter    quorumlock_locker                   events not measured: hooks too slow
//
// "_group" stands for quorumlock_group, and so on. What has the label quorumlock_locker is of Lockers given to
// [Metrics.Observe]. An outcome is acquired, held, quarantined, unavailable, canceled or failed; of a renewal renewed,
// forgotten, taken or failed; of a repair granted or failed. A vote is granted, refused, quarantined or unknown;
// unknown also of a master that had not answered, or was not asked, when the outcome was certain. A state is unknown,
// up, quarantined, down, refused or not_accepted. error_type is a result of
// [github.com/quorumlock/quorumlock/node.Error.Code], empty for success; an operation is acquire, read, renew, release,
// raise, look, mark, introduce, who, slots, inspect or force.
//
// The names are those that OpenTelemetry's exporter makes of package otelquorumlock's. docs/grafana
// and docs/alerts.yml in the repository have a dashboard and rules for alerts over them.
package promquorumlock
