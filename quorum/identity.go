package quorum

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumlock/quorumlock/quorum/internal/holders"
)

// Identity is which process a [Locker] belongs to, self-reported. It is for people, in errors, in
// [State] and in quorumlock status: nothing is decided by it. The zero Identity is an unknown one.
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

// named returns the holder that an error has, for package holders. It returns false if there is
// none, or if it is a lock of this Locker, which is known.
func (c *core) named(e *Error) (of holders.Named, ok bool) {
	if e.ours {
		e.HolderIdentity = c.identity
	}
	if e.Holder == "" || e.ours {
		return of, false
	}
	return holders.Named{Owner: e.Holder, Name: e.Names[0], Node: e.namedBy}, true
}

// describe completes the error of a call that does not wait, by what is known of the holder or a
// node reports soon.
func (c *core) describe(ctx context.Context, e *Error) {
	if of, ok := c.named(e); ok {
		e.setHolder(c.holders.Describe(ctx, of))
	}
}

// inquire completes the error of an attempt by what is known of the holder, and has a node asked for
// more, for the error of the call that waits.
func (c *core) inquire(e *Error) {
	if of, ok := c.named(e); ok {
		e.setHolder(c.holders.Inquire(of))
	}
}

// recall completes the error of a call that has waited.
func (c *core) recall(e *Error) {
	if of, ok := c.named(e); ok {
		e.setHolder(c.holders.Recall(of.Owner))
	}
}

func (e *Error) setHolder(h holders.Holder) {
	if h != (holders.Holder{}) {
		e.HolderIdentity, e.HolderToken = Identity(h.Identity), h.Token
	}
}
