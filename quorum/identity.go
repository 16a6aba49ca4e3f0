package quorum

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumlock/quorumlock/quorum/internal/holders"
	"github.com/quorumlock/quorumlock/scripts"
)

// Identity says which process a [Locker] belongs to; it is self-reported. It is for people, in errors, in
// operator.Status and in quorumlock status: no decision depends on it. The zero Identity is an unknown one.
type Identity struct {
	Host    string // os.Hostname
	PID     int
	Program string // the base name of os.Args[0]
	Label   string // of [WithLabel]; empty for none
}

// String returns "HOST (pid N)", or with a label "LABEL on HOST (PROGRAM, pid N)", without the program if it equals
// the label, or "unknown" for an unknown identity.
func (i Identity) String() string {
	if i == (Identity{}) {
		return "unknown"
	}
	label, program := "", ""
	if i.Label != "" {
		label = fmt.Sprintf("%.64s on ", i.Label)
		if i.Program != "" && i.Program != i.Label {
			program = fmt.Sprintf("%.64s, ", i.Program)
		}
	}
	return fmt.Sprintf("%s%.64s (%spid %d)", label, i.Host, program, i.PID)
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

// describeHolder is nameHolder for a call that makes one attempt: it may ask a node.
func (l *Locker) describeHolder(ctx context.Context, e *Error) {
	l.nameHolder(e, func(of holders.Named) scripts.Identity { return l.room.holders.Describe(ctx, of) })
}

// nameHolder adds to an error which process the holder is, if find knows: Describe, Inquire or Recall of package
// holders.
func (l *Locker) nameHolder(e *Error, find func(holders.Named) scripts.Identity) {
	switch {
	case e.ours:
		e.HolderIdentity, e.handedOver = l.Identity(), l.room.holders.WasHandedOver(e.Holder)
	case e.Holder != "":
		e.HolderIdentity = Identity(find(holders.Named{Owner: e.Holder, Name: e.key, Node: e.namedBy}))
	}
}
