// Package operator is for those who run the masters of a lock. [Check] reports what they should know of a master,
// and [Admit] ends its quarantine if they say so:
//
//	n, err := node.Open("redis://10.0.0.1")
//	if err != nil {
//		return err
//	}
//	defer n.Close()
//	report, err := operator.Check(ctx, n)
//	if err != nil {
//		return err // it does not answer
//	}
//	for _, hazard := range report.Hazards {
//		log.Print(hazard) // it works; an operator should know
//	}
//	return cmp.Or(report.Refused, report.RefusesWrites) // why it grants no lock, or nil
//
// [Inspect] shows who holds a name, and [ForceUnlock] takes a lock from its holder.
//
// A program that locks needs none of them. The command quorumlock has them all: check, admit, status and unlock.
package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/looks"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// dials is how often Check and Admit dial an address again: a balancer that chooses by chance may lead to one master repeatedly.
const dials = 8

// Check reports on the server over a connection of its own, within ctx and the time for connecting
// ([node.WithTimeout]). It dials the address eight times more, to find out whether it leads to two masters. It writes
// nothing. For a server that Lock refuses it returns a Report, too: Report.Refused says why. The error is a
// [*node.Error].
func Check(ctx context.Context, n *node.Node) (Report, error) {
	var report Report
	err := onVisit(ctx, n, "check", false, func(ctx context.Context, v visit) error {
		began := time.Now()
		if _, err := v.command(ctx, "PING"); err != nil && !redisconn.RefusesWrites(err) { // a server with a full disk refuses PING, too
			return err
		}
		report.RoundTrip = time.Since(began)
		dialing, stop := context.WithCancel(ctx)
		var two error
		var others sync.WaitGroup
		others.Go(func() { two, _ = inside.Of(n).Server.DialAgain(dialing, v.info["run_id"], dials) })
		defer others.Wait()
		defer stop()
		save := v.savePoints(ctx)
		before, sent := time.Now(), clock.System().Now()
		reply, err := v.look(ctx)
		if err != nil {
			return err
		}
		look := looks.Look{View: membership.Read(*reply, 0), Sent: sent, Came: clock.System().Now()}
		report.ClockAhead = look.Ahead(before, time.Now())
		refusal, err := v.refusesWrites(ctx)
		if err != nil {
			return err
		}
		others.Wait()
		if two = v.still(ctx, two); v.raw.Err() != nil {
			return two
		}
		report.fill(v, save, look, refusal, two)
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	return report, nil
}

// maxMembers is the most nodes that a Locker takes.
const maxMembers = 64

// maxTries bounds how often Admit reads a marker that changes under it.
const maxTries = 8

// Admit ends the master's quarantine, and makes this client's max lease the deployment's.
//
// By calling it you assert that no lease is alive that this master granted, or a master whose place
// it takes in the clients' lists. That holds once no client has held or requested a lock there for
// one max lease. An empty master proves nothing. If you are wrong, two holders are possible. Admit
// refuses a server that must not be a node, one that clients know by another name, and an address that leads to two
// masters. The error is a [*node.Error].
//
// Admit changes no list of masters. One that has restarted with its list keeps it, and a client with that list confirms
// it. One without a list skips the quarantine if a client marks it within one max lease.
func Admit(ctx context.Context, n *node.Node) error { return admit(ctx, n, nil) }

// AdmitMembers is Admit, and makes the master accept clients with that list of masters, whatever it
// accepted before. You also assert that clients with another list are stopped, and that none can hold
// a lock by this master's grant. The list contains the names of all members ([node.Node.Name]), including
// this one's.
func AdmitMembers(ctx context.Context, n *node.Node, members []string) error {
	if len(members) > maxMembers {
		return invalid(n, "%d members are more than %d", len(members), maxMembers)
	}
	names := make([]string, len(members))
	for i, member := range members {
		names[i] = scripts.Canonical(member)
		if strings.Contains(member, "://") {
			return invalid(n, "member %d is a URL, not a name (not shown: it may hold a password)", i+1)
		}
	}
	list := scripts.NewList(names...)
	if !list.Has(n.Name()) {
		return invalid(n, "the list %s does not contain this master", list)
	}
	return admit(ctx, n, list)
}

func invalid(n *node.Node, format string, args ...any) error {
	return &node.Error{Node: n.Name(), Op: "admit", Err: fmt.Errorf("node: %w: %s", node.ErrInvalid, fmt.Sprintf(format, args...))}
}

// admit gives the node that list; nil keeps the list that it has.
func admit(ctx context.Context, n *node.Node, list *scripts.List) error {
	return onVisit(ctx, n, "admit", true, func(ctx context.Context, v visit) error {
		two, _ := inside.Of(n).Server.DialAgain(ctx, v.info["run_id"], dials)
		if two = v.still(ctx, two); two != nil {
			return two
		}
		for range maxTries {
			look, err := v.look(ctx)
			if err != nil {
				return err
			}
			call, err := change.Admit(membership.Read(*look, 0), list)
			if err != nil {
				return err
			}
			reply, err := v.conn.Call(ctx, call, n.Timeout())
			if err != nil || reply.Mark.Written {
				return err
			}
		}
		return errors.New("others keep changing the marker")
	})
}
