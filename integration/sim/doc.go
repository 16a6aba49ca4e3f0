// Package sim simulates a deployment: the real engine and node code of several clients, in a testing/synctest bubble, over
// connections in memory, against fake masters. A seed makes the whole plan of a run (how many of each, every clock's rate, the
// delays, the faults, what the clients do), and every run is judged by package history.
//
// What is simulated:
//
//   - Clocks: each master and each client has one of its own rate, within the drift allowance or, to see that the checker looks,
//     outside of it.
//   - Connections deliver late, each direction by times of its own, in order within one connection and in any order between two.
//     What a client sent before it gave up, closed, or lost the connection may still arrive. Requests and replies are lost with
//     their connection. Clients and masters are parted, in one direction or both.
//   - Masters crash, with all of their memory, that of the last save, or none, and come back as another process. They are
//     flushed, forget their scripts, and freeze: then they answer, however late, what has gathered.
//   - Clients pause. A paused process does nothing while its clock goes on: nothing is read from its connections, written to them
//     or dialled, no timer of its lock's clock fires, and its work stands still; all of that happens when it wakes, and then
//     deadlines of reads have passed. The library's own goroutines that wait for neither do run on, as do the timers of contexts
//     and of a node's backoff; what they do comes out when the pause is over.
//   - Processes end, killed or in good order, and others take their place, on the same machine.
//
// Every lock is followed from Lock to Unlock: for as long as Valid says, by its client's clock, converted to the bubble's time.
// Besides the history a run is judged by what is left when all is well again: whoever wants a lock must get it, no key may stay
// behind that nobody holds, and no goroutine.
//
// Replay: a seed fixes who does what, every fault, what becomes of all that is sent at a given instant, and the library's dice.
// Whatever does not follow from one event is given an instant of its own, since the order of goroutines within one instant is
// nobody's to choose. Seldom (TestReplay says how often) two of them still share one, as when several flows of a process hear at
// once that a connection has died; so a failure may need -sim.repeat to come back.
package sim
