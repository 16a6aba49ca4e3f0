// Package inmemory has a master in the memory of the process, for a service that runs as one process and has no Redis
// server. The code that locks is the same as with servers:
//
//	master, err := inmemory.Master()
//	if err != nil {
//		return err
//	}
//	defer master.Close() // after the Locker
//	locker, err := redlock.New([]*node.Node{master})
//
// Lockers over one master exclude each other. Nothing excludes another process: a service that runs twice, even only
// while its next version starts, needs a server.
//
// # The end of the process
//
// It takes all locks, slots of semaphores and token counters along: the next process may lock at once what this one had.
//
// Fencing tokens that a database keeps stay below the next process', as a counter that is lost begins at the wall
// clock's time in µs. If that clock was set back meanwhile, the database refuses the new holders until it has caught up.
//
// # Memory
//
// A held lock takes some 2.5 KB, its Locker's part included. A name that is free leaves a token counter, which names
// share: there are at most 65,536, of 11 MB. Leases that end without a release, as those of a closed Locker, are deleted
// by later commands, after at most 1,024 and two for each key.
package inmemory

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/node"
)

// Master returns a node for a new, empty master, which ends when the node is closed. It is a Locker's only node:
// beside others it is refused, as two processes with one each and the same servers could both have a majority. It has
// no quarantine: nobody can hold a lock that it has forgotten. Its name is "inmemory" and its timeout 10 s, as a process
// that stands still has no dead master, unless the options say otherwise. [node.WithDialer] has no effect, and options
// for a server's password or replicas make each lock fail.
//
// quorum.WithoutFounding has no effect over it: it is always new. The error wraps [node.ErrInvalid].
func Master(opts ...node.Option) (*node.Node, error) {
	began, origin := time.Now(), clock.System().Now()
	m := fakeredis.New(func() time.Time { return began.Add(clock.System().Now().Sub(origin)) }, rand.Uint64())
	usual := []node.Option{node.WithName("inmemory"), node.WithTimeout(10 * time.Second), node.WithoutQuarantine(),
		inside.Option[node.Option](func(s *inside.Settings) { s.OneProcess, s.Alone = true, true })}
	dial := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go m.Serve(theirs) // until the node closes ours
		return ours, nil
	}
	return node.Open("redis://inmemory", slices.Concat(usual, opts, []node.Option{node.WithDialer(dial)})...)
}
