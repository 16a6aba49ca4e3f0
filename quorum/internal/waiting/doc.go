// Package waiting decides which waiter attempts to acquire a lock, when, and which nodes it asks
// first: its [Approach]. It is a pure state machine: events go in, and [Queue.Next] says what
// follows. It sends nothing, reads no clock and starts no timer.
//
// A [Queue] holds the waiters of one process for one set of names, in FIFO order. Only the head
// makes attempts. Between processes there is no queue; the order is estimated. A refusal reports
// how many processes subscribe to the release channel, and the head first lets as many releases
// pass as there are others (its position). No process relies on another: each position costs one
// step of time at most, and a poll bounds every wait.
//
// A release counts when a quorum has published it: fewer messages may come
// from a failed attempt that gives its votes back. After a split vote several attempts give theirs back, which
// looks like a release: such echoes count as other messages. The subscriptions stand while a quorum has
// confirmed them.
//
//	event               changes                     the head's next attempt
//	Share, before Join  a position counts one less
//	Join                one more waiter, at the end new queue: at once, by the approach that Init
//	                                                got; otherwise within a poll by the shortest
//	                                                bounds
//	Yield, after the    position is the number of   in one step and one per process, probe first;
//	first Join          processes that heard it     Subscribed does not change that
//	Begin               an attempt is under way     none until it has ended
//	Refused, held       position recounted          by the first line that applies:
//	  a release since                               as after a release
//	  by readers                                    at once, ask all, to reserve on all; then
//	                                                twice within a reservation
//	  split vote        one more disagreement       after the backoff, probe first
//	  subscribed since                              at once, probe first
//	  another message   one more disagreement       as after Message, otherwise
//	  by the probe node one more disagreement       in ten steps and one per position (or after a
//	                                                longer backoff), ask all
//	  by all nodes      one disagreement less       by the poll or the end of the lease, ask all
//	Refused, quarantine one more failure            by the poll or its end, ask all
//	Refused, otherwise  one more failure            after the retry time, ask all
//	Acquired            head removed, position      by the poll or the end of the lease, ask all
//	                    recounted
//	Hasten                                          at once, ask all
//	Leave, the head     head removed                at once if its attempt was under way
//	Leave, another      waiter removed              unchanged
//	Message, a release  position one less           in one step per position; ask all at 0
//	Message, otherwise                              in two steps and one per position (or after a
//	                                                longer backoff), probe first
//	Subscribed          subscriptions stand         at once, probe first: a release may have been
//	                                                missed before
//	Unsubscribed        they no longer stand        by the retry time
//
// "By all nodes" is by enough nodes to be certain, if not all were asked. If every node
// is needed, a refusal by the probe node is one by all nodes, and a release leads to a probe at
// position 0, too. An event during an attempt takes effect at the attempt's end.
//
// [Alone] is the approach of first attempts only: all others know that they may not be alone.
//
// A call that waits for no release has no queue: its [Tries] decide.
//
// Alongside the queues, an [RTT] has the round-trip times, from which a step follows, and a [History]
// what has just happened to names: it chooses the approach of first attempts, and who must yield.
//
// Many queues of one process poll less often each: see Queue.sharedPoll. First attempts, releases and other
// messages, and the backoff after the first split votes are as prompt as ever. What the table calls a poll, a
// retry time or ten steps takes longer then, and so does the probe after subscriptions have been lost and stand
// again.
//
// The files: waiters.go is the list, waiting.go the table's policy above it, pauses.go how long the policy
// waits; approach.go, rtt.go and history.go stand alone.
package waiting
