package quorum

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
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

// introduceEvery is how often a Locker that holds locks writes its identity anew. A master that has
// lost it has it again after so long.
const introduceEvery = 15 * time.Second

// introduction keeps a Locker's identity on the nodes while the Locker holds locks: a key on each
// node, however many locks it holds. The key outlives every lease, so that the lock of a process
// that is dead still tells which it was.
type introduction struct {
	nodes []*node.Node
	call  scripts.Call
	next  atomic.Int64 // the clock.Instant of the next writing
}

func newIntroduction(nodes []*node.Node, locker string, is Identity, maxLease time.Duration) *introduction {
	// A lock is renewed every third of a lease, at which the key is written anew, too.
	ttl := maxLease + 3*introduceEvery
	in := &introduction{nodes: nodes, call: scripts.Introduce(locker, scripts.Identity(is), ttl)}
	in.next.Store(int64(clock.Never))
	return in
}

// keep writes the identity, if that is due. It waits for no node. A server that refuses the key is
// left alone: its locks have no identity.
func (in *introduction) keep(now clock.Instant) {
	next := in.next.Load()
	if int64(now) < next || !in.next.CompareAndSwap(next, int64(now.Add(introduceEvery))) {
		return
	}
	for _, n := range in.nodes {
		n.Pipe("").Start(in.call, nil, nil) // a node that is down gets it with a later one
	}
}
