// Package lease is the life of one owner's lock, from the first request for a grant until it is
// released or lost, as a pure state machine: events go in, and commands come out. It sends nothing,
// reads no clock, starts no timer and locks nothing. Package quorum owns these: it calls an event's
// method with the instant at which the event happened, and carries out the commands in their order,
// before the next event.
//
//	phase      event             becomes    commands
//	Asking     Begin                        Ask the first wave
//	           Answered, a quorum granted
//	                             Settling   Raise each counter that stands lower; Decided if none does
//	           Answered, a quorum is out of reach, or the probe master refused
//	                                        Decided
//	           Answered, else               Ask more, where one failed or all of a wave have answered
//	           SecondWave                   Ask the others
//	           AskWhetherPermanent          Ask the others; Cleared follows
//	           GiveUp            Undone     Release
//	Settling   Answered (Raise)             Decided with the last one, or where one fails
//	           SecondWave                   Ask the others
//	           Hold              Held
//	           GiveUp            Undone     Release
//	Held       Renew                        Renew where the grant is kept, Repair where it is not
//	           Answered                     none while a quorum keeps the grant, else
//	                             Expired    End
//	           Due, the deadline has passed
//	                             Expired    End
//	           Enter, Extend                Ask the others, then all masters
//	           Leave                        Release to the lower level
//	           Linger            Lingering  End
//	           Unlock            Released   End, Release
//	           Unlock, the deadline has passed
//	                             Expired    End
//	           Orphan            Orphaned   End
//	Lingering  Renew, Answered              as Held, but the end of the deadline is left to Due
//	           Due, min hold or deadline over
//	                             Released   Release
//	Orphaned   Linger            Released   none: the keys are left to their leases
//	           Unlock            Released   End, Release
//	Expired    Drop                         Release
//
// No request that could make a grant follows a Release to level 0: no other phase emits one. Submit
// may come wherever a request for a grant is answered by a master whose marker does not accept the
// client; the request goes out again by Submitted. Interrupt ends a lease in any phase.
//
// The files: lease.go has the state, command.go what goes in and out, attempt.go the way to a lock,
// keep.go renewal and loss, use.go what a holder does.
package lease
