package lease

import (
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Do is the kind of a [Command].
type Do uint8

const (
	Ask     Do = iota // for a grant
	Raise             // the counter to Token, if the owner still has its grant
	Renew             // the grant, by Lease
	Repair            // ask for the grant again, with Token and Depth
	Enter             // the same, for a caller who waits; also for a downgrade
	Extend            // as Renew, for a caller who waits
	Release           // everything the owner holds if Depth is 0, else set its depth
	Submit            // the client's list to the master, and then call [Lease.Submitted] for the request
	Decided           // the outcome of the attempt is certain
	Stop              // the contexts: the lock is held for another StopBefore, or for longer if a renewal comes
	End               // the contexts, with Cause; a lost lease is dropped then: see [Lease.Drop]
)

// Command is what the shell has to do. It carries commands out in their order.
type Command struct {
	Do     Do
	Master int
	Mode   Mode // of a request for a grant, and of Release: as what the owner holds
	Depth  int
	Lease  time.Duration
	Until  clock.Instant // a grant by this command lasts until then
	Cause  Cause         // of End

	fresh bool // no request to this master may have been carried out before
}

// Answer is what a master's reply says.
type Answer uint8

const (
	Unasked Answer = iota
	Unanswered
	Granted
	Refused     // another owner holds a name
	Barred      // a release by this owner came before
	Quarantined // the master may have forgotten grants
	NotAccepted // its marker has no list, or another, and the client's may be submitted
	Failed      // unreachable, timed out, or an error: the request may have been carried out
	Unsent      // the command could not be sent

	Kept       // renewed
	Gone       // the master has nothing at the name
	Taken      // it has another owner there
	NotRenewed // it keeps the grant, but its marker does not accept this client
)

// Reply is the part of a master's reply that the lease uses.
type Reply struct {
	Is      Answer
	Process string // that answered
	Token   uint64 // the counter
	// Resent: the request was on a connection that died, and was sent again: the first copy may have been
	// carried out.
	Resent bool
	// Late: a copy of the request for a grant may be carried out at any time (of Raise).
	Late bool
	// NothingDone: the request was not carried out, and will not be (of Failed).
	NothingDone bool
}

// Cause is why a lease has ended, or why a won attempt has failed.
type Cause uint8

const (
	NoCause Cause = iota
	// of an attempt that was won; Lock.failure in package quorum words them
	TooLate   // the lease was over
	NotRaised // the grant that was read was gone before the token was written back
	MovedOn   // a late copy of the request was granted above the token, or a neighbour has raised the counter
	RaiseFailed
	// of a lease that was held
	Unlocked
	HandedOver
	Closed
	Stopping // of the contexts alone
	MaxHoldOver
	LeaseOver
	NotKept       // too few masters keep it
	NotConfirmed  // too few masters confirmed a renewal in time
	DeadlineFound // a caller found the deadline passed

	Causes = iota
)
