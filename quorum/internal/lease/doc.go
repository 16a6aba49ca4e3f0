// Package lease is the life of one owner's lock, from the first request for a grant until it is
// released or lost, as a pure state machine: events go in, and commands come out. It sends nothing,
// reads no clock, starts no timer and locks nothing. Package engine owns these: it calls an event's
// method with the instant at which the event happened, and carries out the commands in their order,
// before the next event. After End it first ends the contexts, which takes a while. Events that
// arrive meanwhile change nothing unless the lease lingers or its Locker was closed; their releases
// wait.
//
//	phase      event             becomes    commands
//	Asking     Begin                        Ask all masters, or the probe master alone
//	           TakeReply, a quorum granted
//	                             Settling   Raise each counter that stands lower; Decided if none does
//	           TakeReply, a quorum is out of reach, or the probe master refused
//	                                        Decided
//	           TakeReply, the probe master granted
//	                                        Ask the others
//	           TakeReply, the probe master failed or is in quarantine
//	                                        Ask the next master
//	           AskOthers                    Ask the others
//	           GiveUp            Undone     Release
//	Settling   TakeReply (Raise)            Decided with the last one, or if one fails
//	           Hold              Held
//	           GiveUp            Undone     Release
//	Held       Renew                        Renew where the grant is kept, Repair where it is not
//	           TakeReply                    none while a quorum keeps the grant, else
//	                             Expired    End
//	           Due, the deadline has passed
//	                             Expired    End
//	           Enter, Extend                the same at all masters
//	           Downgrade                    Enter at all masters, as a reader
//	           Leave                        Release to the lower depth
//	           Linger            Lingering  End
//	           Unlock            Released   End, Release
//	           Unlock, the deadline has passed
//	                             Expired    End
//	           HandOver          Released   End: the keys are left to the owner that takes over
//	           Orphan            Orphaned   End
//	Lingering  Renew, TakeReply             as Held, but the end of the deadline is left to Due
//	           Due, min hold or deadline over
//	                             Released   Release
//	Orphaned   Linger            Released   none: the keys are left to their leases
//	           Unlock            Released   End, Release
//	Expired    Drop                         Release
//
// No request that could be granted follows a Release to depth 0: no later phase emits one. If a
// master's marker does not accept the client, the reply to any request for a grant leads to Submit;
// Submitted sends the request again. Interrupt ends a lease in any phase.
//
// The files: lease.go has the state, command.go what goes in and out, attempt.go the way to a lock,
// keep.go renewal and loss, use.go what a holder does.
package lease
