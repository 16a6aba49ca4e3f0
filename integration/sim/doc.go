// Package sim simulates a deployment: the real engine and node code of several clients, in a
// testing/synctest bubble, in a world of package internal/world. A seed makes the whole
// plan of a run: the numbers of clients and masters, every clock's rate, the delays, the faults, of all
// kinds that there are, and what the clients do. Package history judges every run.
//
// The simulation covers:
//
//   - Clocks: each master and each client has a clock of its own rate, within the drift allowance
//     or, to test the checker, outside it.
//   - Connections deliver late, each direction with its own delays, in order within one connection
//     and in any order between two. A request may still arrive after its client gave up, closed, or
//     lost the connection. Requests and replies are lost with their connection. Clients and masters
//     are partitioned, in one direction or both.
//   - Masters crash and come back as another process, with all of their memory, with what
//     they saved last, or with none. They are flushed, they forget their scripts, and they freeze. A
//     thawed master answers everything it received meanwhile.
//   - Clients pause. A paused process does nothing while its clock goes on: it reads, writes and
//     dials no connection, no timer of its lock's clock fires, and its work stands still. All of
//     that happens when it wakes, and deadlines of reads have passed by then. The library's own
//     goroutines that wait for none of these run on, as do the timers of contexts and of a node's
//     backoff. Their effects appear when the pause is over.
//   - Processes end, killed or in good order, and others take their place on the same machine.
//   - In the plans of newCrowdPlan the sockets are slow: requests gather and share runs of a script.
//   - In the plans of newSemaphorePlan the flows contend for the slots of a semaphore, one or two at a
//     time. Some say a smaller number of slots.
//   - In the plans of newListPlan the list of masters changes: an operator adds and removes members
//     one by one, stops anywhere, goes on or aborts. Clients follow before the commit, at some time,
//     or never; some have a wrong list from the start.
//
// The history follows every lock from Lock to Unlock. A hold lasts as long as Valid reports it by
// its client's clock, converted to the bubble's time. A run is also judged after all faults have
// ended: every waiter must get its lock, and no key without a holder and no goroutine may be left.
//
// Replay: a seed fixes the clients' actions, every fault, the fate of everything sent at a given
// instant, and the library's random numbers. The order of goroutines within one instant cannot be
// fixed, so events without a common cause get instants of their own. Seldom two events still share
// an instant (TestReplay counts these runs), as when several flows of a process learn at once that
// a connection has died. So a failure may need -sim.repeat to come back.
package sim
