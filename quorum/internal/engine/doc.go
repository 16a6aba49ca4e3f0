// Package engine acquires, renews and releases locks on the nodes. It is the shell around package lease, which decides:
// an [Engine] has the nodes, the clock and the schedule of renewals, a [Hold] is one owner's lease with its requests
// and replies.
//
// It knows no options. What it finds out comes back as facts: an [Outcome] for an attempt, a [Status] for a lock, a
// [Tally] for the replies to a call. What happens meanwhile goes to [Events]. Package quorum makes errors, hooks, logs
// and counters of them: the only text made here is why a node's reply does not count.
//
// Lock order: the schedule's mutex, then Hold.mu, then the nodes'. No context is ended, and no other code of a
// caller runs, with a mutex locked.
package engine
