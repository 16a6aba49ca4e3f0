package quorum

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/scripts"
)

// Identity is which process a [Locker] belongs to, by its own word. It is for people, in errors, in
// [State] and in quorumlock status: nothing is decided by it. The zero
// Identity is an unknown one.
type Identity struct {
	Host    string // os.Hostname
	PID     int
	Program string // the base name of os.Args[0]
	Label   string // of [WithLabel]; empty for none
}

// String returns "HOST (pid N)", after "LABEL on " where there is a label, and "unknown" for an
// unknown identity.
func (i Identity) String() string {
	if i == (Identity{}) {
		return "unknown"
	}
	text := fmt.Sprintf("%.64s (pid %d)", i.Host, i.PID)
	if i.Label != "" {
		text = fmt.Sprintf("%.64s on %s", i.Label, text)
	}
	return text
}

// thisProcess returns the identity of a Locker of this process.
func thisProcess(label string) Identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	program := ""
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return Identity{Host: host, PID: os.Getpid(), Program: program, Label: label}
}

// introduction keeps a Locker's identity on the nodes while the Locker holds locks: a key on each
// node, however many locks it holds. The key outlives every lease, so that the lock of a process
// that is dead still tells which it was. With it is the list of masters, for quorumlock members.
type introduction struct {
	core     *core
	identity Identity
	next     atomic.Int64 // the clock.Instant of the next writing
}

func newIntroduction(c *core, is Identity) *introduction {
	in := &introduction{core: c, identity: is}
	in.next.Store(int64(clock.Never))
	return in
}

// keep writes the identity, if that is due. It waits for no node. A server that refuses the key is
// left alone: its locks have no identity.
func (in *introduction) keep(now clock.Instant) {
	next := in.next.Load()
	if int64(now) < next || !in.next.CompareAndSwap(next, int64(now.Add(scripts.IntroduceEvery))) {
		return
	}
	c := in.core
	call := scripts.Introduce(c.uuid, scripts.Identity(in.identity), c.roster.List(), c.maxLease)
	for _, n := range c.nodes {
		n.Pipe("").Start(call, nil, nil) // a node that is down gets it with a later one
	}
}
