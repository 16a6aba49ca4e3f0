// This package is an exhaustive search of the life of locks for two holders, for fencing tokens that do not increase, and
// for the other promises of promises_test.go. The tests of package lease itself are in keep_test.go, lease_test.go
// and state_test.go; export_test.go is what the search reads of a Lease.
//
// What is searched is what ships. Each client runs the machine of package lease. Each master is a
// keyspace of internal/fakeredis, which script vectors hold to real servers. Calls are made and replies
// are read by package scripts.
//
//   - world_test.go is the state, and the bounds of a search. Read this file first.
//   - masters_test.go and leases_test.go run the shipped code, and remember what it did. Every state of a
//     master, and of a lease, has a number; times in it count from now.
//   - steps_test.go is what may happen, and what stands for package engine and for the pipelines.
//   - promises_test.go is what must hold.
//   - explore_test.go has what package visited searches: which states are alike.
//   - search_test.go has the setups in which the promises must hold.
//   - failover_test.go is masters that have replicas, and failover_search_test.go their setups.
//   - mutants_test.go leaves out one rule of the shipped code at a time: the search must find a trace.
//     docs/reports/mutants.md has them as a table.
//
// # What is promised
//
// With honest clocks, no two clients hold a name at one time, and each acquisition of it has a greater
// token than all before it. With lying clocks a lease may end on a master at any time, and its holder
// does not notice: still no two acquisitions of a name have equal tokens, and an attempt that began after
// another client had acquired gets a greater token than that client. With clocks that stand still, a
// lease that is over leaves nothing behind, even where connections die, and no lock is lost unless a master
// restarts or forgets.
//
// A lock that is handed over is nobody else's until one with the ticket asks for it, or its lease ends. A
// ticket works once, unless requests arrive after the tombstones that bar their owner.
//
// Only the seed, which is a clock, restores a counter that a master forgot. So tokens are promised over
// masters that forget or over clocks that lie, not over both.
//
// # What is bounded
//
// Three masters, the quorum rule "majority", one to three clients, one or two attempts for each. Each
// search bounds how many connections die and how many masters restart or forget, and, if there are
// seeds, the time. Delays and renewals are not bounded, nor is time without seeds: states repeat. Each
// search says whether it was complete.
//
// Without tokens all counters are alike: a master's counter is deleted after each call, and each grant has the
// token 1. With lying clocks nobody sends a release to depth 0: the end of a lease has the same effect.
//
// # Masters that fail over
//
// Such a master is two or three processes: one is the master, the others are replicas. A replica has its master's
// data of some writes before: a script's effects arrive together. It is promoted at any moment, and the master that
// it followed goes on for as long as it likes: nothing tells it. Any process becomes another's replica at any moment,
// gets the other's data, and may be promoted again. One may restart without its last locks, or without all its data.
// A client stays at one process, or connects to another that is a master then. Its connections outlive promotions,
// which real servers allow too.
//
// A reply to all but a release waits for package pipeline's seal. It is read when the seal holds, or as a failure at
// any moment. Acknowledgments that replicas gave before they left may arrive at any later time. On a replica whose
// clock is ahead or behind, times to live differ by a tick.
//
// A replica's own replicas are not played, nor are more processes than the deployment wants: docs/safety.md says what
// they break. With three masters a failover is one step, unless the setup says otherwise. That nothing is left behind
// is not promised here: a release needs no seal, so a failover may lose it.
//
// # What the search leaves out
//
// It renews whenever it likes, and not only when the machine asks. The machine's next instant is part
// of the state only in setups with timers. A timer is late only in setups that doze. A client that
// has to submit its list submits it at once, or fails, unless the setup is slow. A reply is read when
// it is given, unless the setup reads it late.
//
// Other faults of a master: it refuses commands for a while, because memory or a permission is
// missing; an operator's PERSIST; another program's member in a set of readers; another database's
// data. A master whose name leads to another process is one that forgets.
//
// All requests of a pipeline that dies were written, or, if the client cannot connect, none was. The
// requests that dead connections may still deliver are a set. A holder enters, leaves and extends again
// once its last such requests have reached the masters. A lease whose requests are proven to have done
// nothing still gets its release (pipeline.Footprint.NothingThere). A renewal holds one lock, and no
// server refuses keys. Clocks run alike: the drift is shorter than a tick. Five masters, and the marking
// of masters by lists, are not played: package membership searches the latter.
package lease_test
