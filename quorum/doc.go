// Package quorum makes one lock out of several independent Redis masters. How many of them make a
// lock is a [Rule]; packages redlock and multilock choose one.
//
// What decides is in pure packages: lease, the life of one owner's lock; waiting, which waiter asks
// next, and when; slots, which slots of a semaphore it asks for; roster, which masters accept this
// locker. This package is their shell. It owns
// mutexes, contexts, pipelines, timers and logs: it tells the machines what happens, and carries out
// what they decide.
//
// A lock's way, by file:
//
//	Lock        locker.go   names and context are checked; a flow that holds the names enters
//	                        again (use.go)
//	            rwlock.go, semaphore.go   the same for readers and for slots
//	waiting     wait.go     this process has one queue for what calls want (wanted.go); its head attempts
//	                        when package waiting says so; subscribe.go wakes it, giveup.go ends it
//	masters     masters.go  if a node does not accept this locker, package roster looks at all
//	                        nodes, and marks unmarked ones, if it may
//	attempting  slotscall.go   for a semaphore: package slots chooses which slots to attempt
//	            attempt.go  a fresh owner; a request to each node, perhaps to the probe node first; then
//	                        commit, or undo, and failure.go says why
//	            hold.go     carries out the lease's commands
//	            reply.go    a command becomes a request to a node, and its reply goes to the lease
//	held        renew.go    what is due: renewals in batches, second tries, the end
//	            use.go      what a holder does: enters again, extends, unlocks; downgrades (rwlock.go)
//	            requested.go   a waiter asks the holder to let go, and the holder listens
//	handed over handover.go contexts end and the keys stay; another owner takes over by the ticket
//	released    release.go  contexts end, then the release goes to every node; who waits for the
//	                        replies; the end of a lost lock
//
// A hold is the shell of one owner's lock. A handle is a [Lock]: one for the acquired lock, and
// another for each re-entry (lock.go). A flow is the calls whose contexts derive from a
// lock's context.
//
// Where to begin a change:
//
//   - when a lock is held, renewed, lost or released, and what goes to which master then: package lease
//   - which slot of a semaphore a call attempts: package slots; whom it asks for a hint: slotscall.go
//   - which node an attempt asks first, and whether it asks all: attempt.go (ask, firstNode)
//   - what a node's reply means: scripts/replies.go, then reply.go (replyOf)
//   - how requests are sent, share a run, are sent again, and a refused release is tried again:
//     internal/pipeline
//   - whom a master accepts: package roster, over internal/membership
//   - the text of an error: errors.go, with its parts in text.go; of a node's, reply.go (replyError); why a lock was lost,
//     hold.go (whyLost); the choice of the reason, failure.go
//   - which process a holder is, and how a Locker shows its own: package holders (identity.go)
//   - hooks: observe.go; what Stats counts: core.go (counters)
//
// What passes between a hold and a node: the lease's command goes out as a request, which may be for a
// grant, and comes back as a reply. Its answer is what it says: granted, refused, quarantined and so
// on. The lease takes the reply, and its effect is what the caller's tally counts.
//
// Lock order: the mutex of a schedule, then a hold's, then the nodes'. A context of the caller's is asked,
// made and ended with no mutex locked: it is the caller's code (noteEndLocked in hold.go).
package quorum
