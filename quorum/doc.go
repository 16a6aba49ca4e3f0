// Package quorum makes one lock out of several independent Redis masters. How many of them make a
// lock is a [Rule]; packages redlock and multilock choose one.
//
// The life of a lock, and the files that have it:
//
//	Lock        locker.go   names and context are checked; a flow that holds the names enters
//	                        again (reenter.go)
//	waiting     wait.go     this process has one queue for a set of names, which subscribes to its
//	                        channels (subscribe.go); its head attempts when package waiting says so
//	masters     masters.go  if a node does not accept this locker, package roster looks at all
//	                        nodes, and marks unmarked ones with the locker's list of masters, if
//	                        it may
//	attempting  attempt.go  a fresh owner; a request to each node (ballot.go), in one wave or two
//	                        (waves.go), slow nodes last (package waiting); a lock that is released soon
//	                        has asked the first wave only
//	            token.go    the fencing token is the largest counter, written back to the counted
//	                        nodes that stand lower
//	            attempt.go  commit reads the clock last; or else undo releases on every node, and
//	                        failure.go says why
//	held        renew.go    every third of the lease, renewals in batches; a node that forgot the
//	                        lock is asked to grant it again (repair); extend.go, reenter.go
//	released    unlock.go   contexts end, then the release goes to every node (release.go); the next
//	                        call of Lock goes behind the processes that heard it (package waiting)
//	lingering   renew.go    unlocked before the end of its min hold: renewed until then, and
//	                        released by the schedule
//	expired     release.go  too few nodes keep it, by the clock: contexts end, what is left on nodes
//	                        is released, the Lost hooks run
//	orphaned    release.go  Close: contexts end, the keys are left to their leases
//
// Words beside the glossary of docs/design.md: a hold (hold.go) is the state of one owner's lock,
// with a vote for each node, which says how long that node keeps the grant by the local clock. The
// hold's deadline is the instant until which a quorum of nodes does. One schedule (package
// schedule) with one timer handles all holds, and another one the second waves that are yet to be
// asked. A handle is a [Lock]: one for the acquired lock, and another for each re-entry. A flow is
// the calls whose contexts derive from a lock's context.
//
// Where to begin a change: how many nodes an attempt asks first, when it asks the others, and from
// which load on, is in waves.go; what counts as slow, how long a step is, and who probes, in
// package waiting. What an answer to an attempt does is in ballot.go (its fields) and grant.go (its
// outcome); what a reply to a release does in release.go, and its second try after a refusal in
// internal/pipeline; the wording of errors is in errors.go, the choice of the reason in failure.go.
// Which masters accept this locker, and how new ones are marked, is in package roster; which process
// a holder is, and how a Locker shows the nodes its own, in package holders. Hooks are called in
// observe.go; what [Locker.Stats] returns is counted in counters.go.
//
// Each file uses only those before it: identity, errors, rule, options, hooks, background, names,
// tally, counters, core, holder, masters, hold, grant, release, renew, ballot, waves, token,
// failure, attempt, lock, observe, extend, reenter, unlock, subscribe, wait, locker, stats, inspect.
// (Only options, hooks and hold, core, hold and ballot, tally and release, renew and observe, hold,
// ballot and waves, and subscribe and wait name each other.)
package quorum
