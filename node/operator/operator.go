package node

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/scripts"
)

// Check reports on the server over a connection of its own, within ctx and the time for connecting
// ([WithTimeout]). It writes nothing. It also reports on a server that Lock refuses: see [Report]. The error is a
// [*Error].
func (n *Node) Check(ctx context.Context) (Report, error) {
	var report Report
	err := n.onOwnConn(ctx, "check", func(ctx context.Context, c redis.Conn) error {
		found, conn, err := n.server.ask(ctx, c, func(*info) error { return nil })
		if err != nil {
			return err
		}
		began := time.Now()
		if _, err := n.command(ctx, c, "PING"); err != nil {
			return err
		}
		report.RoundTrip = time.Since(began)
		save := n.savePoints(ctx, c)
		reply, err := conn.Call(ctx, scripts.Look(), n.Timeout())
		if err != nil {
			return scriptError(err)
		}
		report.Name = n.Name()
		report.fill(found, save, membership.Read(*reply.Look, 0), n.server.opts)
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
// refuses a server that must not be a node, and one that clients know by another name. The error is
// a [*Error].
//
// Admit changes no list of masters. A blank master has none until a client marks it. If that happens
// within one max lease, it skips the quarantine.
func (n *Node) Admit(ctx context.Context) error { return n.admit(ctx, nil) }

// AdmitMembers is Admit, and makes the master accept clients with that list of masters, whatever it
// accepted before. You also assert that clients with another list are stopped, and that none can hold
// a lock by this master's grant. The list contains the names of all members ([Node.Name]), including
// this one's.
func (n *Node) AdmitMembers(ctx context.Context, members []string) error {
	if len(members) > maxMembers {
		return &Error{n.Name(), "admit", invalidf("%d members are more than %d", len(members), maxMembers)}
	}
	list := scripts.NewList(members...)
	if !list.Has(n.Name()) {
		return &Error{n.Name(), "admit", invalidf("the list %s does not contain this master", list)}
	}
	return n.admit(ctx, list)
}

// admit gives the node that list; nil keeps the list that it has.
func (n *Node) admit(ctx context.Context, list *scripts.List) error {
	return n.onOwnConn(ctx, "admit", func(ctx context.Context, c redis.Conn) error {
		_, conn, err := n.server.ask(ctx, c, (*info).refuse)
		if err != nil {
			return err
		}
		for range maxTries {
			reply, err := conn.Call(ctx, scripts.Look(), n.Timeout())
			if err != nil {
				return scriptError(err)
			}
			call, err := membership.Read(*reply.Look, 0).Admit(list)
			if err != nil {
				return err
			}
			reply, err = conn.Call(ctx, call, n.Timeout())
			if err != nil || reply.Mark.Written {
				return err
			}
		}
		return errors.New("others keep changing the marker")
	})
}

// savePoints returns the server's save points, or nothing if the user may not use CONFIG.
func (n *Node) savePoints(ctx context.Context, c redis.Conn) (save savePoints) {
	values, err := redis.Strings(n.command(ctx, c, "CONFIG", "GET", "save"))
	if save.known = err == nil && len(values) == 2; save.known {
		save.any = values[1] != ""
	}
	return save
}
