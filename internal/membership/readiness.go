package membership

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

var (
	errUnmarked = errors.New("the master is new or has forgotten its list of masters. A client gives it its list when a " +
		"majority of the masters carry that list, or all of them answer and none has another; " +
		"quorumlock admit -members does so, if what it asserts is true")
	errUnmarkedExisting = errors.New("the master is new or has forgotten its list of masters. It gets it back when a " +
		"majority of the masters carry it; or, while all of them answer, from a client without WithoutFounding " +
		"(quorumlock run without -existing); quorumlock admit -members does so, if what it asserts is true")
	errUnmarkable = fmt.Errorf("%w: the master is new or has forgotten its list of masters, and does not get "+
		"this client's, which another of its masters refuses", ErrDiffers)
	errUnwritable = errors.New("the master is new or has forgotten its list of masters, and does not get it while another one refuses writes")
)

// forbiddenError is why a node is not marked: err is another one's, whose message says more.
type forbiddenError struct{ err error }

func (forbiddenError) Error() string {
	return "the master is new or has forgotten its list of masters, and does not get it while the user lacks a right on another one"
}

func (e forbiddenError) Unwrap() error { return e.err }

// Readiness says whether, and when, a node grants to a client.
type Readiness struct {
	In  time.Duration // its quarantine ends then by itself; 0: it grants now
	Err error         // why it grants nothing, however long the client waits
}

// Readiness returns the readiness of node i by its view. errs says why a node has no view.
func (c Client) Readiness(views []*View, errs []error, i int) Readiness {
	if left := c.ClaimWaits(views, i); left > 0 {
		return Readiness{In: left}
	}
	if err := c.Refusal(views, errs, i); err != nil {
		return Readiness{Err: err}
	}
	return Readiness{In: min(views[i].Quarantine(), c.Quarantine(i))}
}

// ReadyIn returns how long until a quorum grants, 0 for now. ok is false if it never will by itself.
func ReadyIn(nodes []Readiness, quorum quorate.Rule) (in time.Duration, ok bool) {
	const never = time.Duration(math.MaxInt64)
	waits := make([]time.Duration, len(nodes))
	for i, n := range nodes {
		if waits[i] = n.In; n.Err != nil {
			waits[i] = never
		}
	}
	if in = quorate.Smallest(quorum, waits); in == never {
		return 0, false
	}
	return in, true
}

// Refusal returns why the node does not accept the client, nil if it does.
func (c Client) Refusal(views []*View, errs []error, i int) error {
	v := views[i]
	if v == nil {
		return errs[i]
	}
	switch v.Relation(c.List) {
	case Accepts:
		return nil
	case Refuses:
		return v.Refusal(c.List)
	}
	for _, err := range errs {
		switch { // an operator's admission would be refused, too
		case redisconn.RefusesWrites(err):
			return errUnwritable
		case redisconn.ForbidsUser(err):
			return forbiddenError{err}
		}
	}
	if v.HadAnother(c.List) && v.IsMarked() {
		return v.Refusal(c.List)
	}
	if v.HadAnother(c.List) {
		return fmt.Errorf("%w: the master has come back with the list %s, and no client has marked it since; this client's "+
			"list is %s (quorumlock admit -members gives it one, if what it asserts is true)", ErrDiffers, v.marker.Members, c.List)
	}
	if before, found := v.Announced(c.List); found {
		return fmt.Errorf("the master has come back during the change from %s to %s, and waits for a client with %[1]s: "+
			"lock any name with that list, all its masters up, and then repeat the change; or quorumlock admit -members gives it a "+
			"list, if what it asserts is true", before, c.List)
	}
	if slices.ContainsFunc(views, c.isRefusedBy) && !c.mayBeAccepted(views) {
		return errUnmarkable
	}
	if c.Exists {
		return errUnmarkedExisting
	}
	return errUnmarked
}

// ClaimWaits returns how long a node that is claimed for the client's list must wait; 0 for other nodes.
func (c Client) ClaimWaits(views []*View, i int) time.Duration {
	if v := views[i]; v == nil || v.Relation(c.List) != Claimed {
		return 0
	}
	return ClaimWaits(views, c.List)
}

// mayBeAccepted reports whether a node accepts the client, or so many are silent that a majority may.
func (c Client) mayBeAccepted(views []*View) bool {
	silent := 0
	for _, v := range views {
		if v == nil {
			silent++
		} else if v.Relation(c.List) == Accepts {
			return true
		}
	}
	return silent >= quorate.Majority(len(views)).Need
}

// isRefusedBy reports whether a node has another list, or had one before it came back.
func (c Client) isRefusedBy(v *View) bool {
	return v != nil && (v.Relation(c.List) == Refuses && errors.Is(v.Refusal(c.List), ErrDiffers) || v.HadAnother(c.List))
}
