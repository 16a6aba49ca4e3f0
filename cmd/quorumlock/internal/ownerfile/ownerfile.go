// Package ownerfile keeps in a file which owner has the lock of a running job, so that the lock of a process that died
// can be released at once. The writer has the file locked (flock), and so has its job, which inherits the descriptor:
// while one of them lives, nobody else opens the file.
package ownerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// ErrInUse is the error of [Open] for the file of a process that is alive.
var ErrInUse = errors.New("it is in use: the run that wrote it, or a process of its job, is alive (fuser shows which)")

// Record is what a file says.
type Record struct {
	Owner   string   `json:"owner"`
	Names   []string `json:"names"`
	Slot    int      `json:"slot"`    // of the semaphore that Names has; −1 for locks
	Masters []string `json:"masters"` // their names
	Machine string   `json:"machine"` // until its restart: see machine
	File    string   `json:"file"`    // which file it was written to: a copy's owner may be alive
	isCopy  bool
}

// New returns the record of an owner that lives on this machine.
func New(owner string, names []string, slot int, nodes []*node.Node) Record {
	return Record{Owner: owner, Names: names, Slot: slot, Masters: masters.List(nodes).Names(), Machine: machine()}
}

// Locks returns the names of the locks on the masters.
func (r Record) Locks() []string {
	if r.Slot >= 0 {
		return []string{scripts.SlotName(r.Names[0], r.Slot)}
	}
	return r.Names
}

// Foreign returns why nothing may be released by the record here, or nil. The owner of another machine may be alive, as
// the file is a copy, or on a file system that both have. An owner of this one died at its restart.
func (r Record) Foreign(nodes []*node.Node) error {
	switch {
	case r.isCopy:
		return errors.New("it is a copy: the run that wrote the original, or its job, may be alive")
	case r.Machine != machine():
		return errors.New("it was written on another machine, or before this one was restarted")
	case !slices.ContainsFunc(r.Masters, masters.List(nodes).Has):
		return fmt.Errorf("its lock is on other masters: %.200q", r.Masters)
	}
	return nil
}

// CheckNames returns why a record cannot have the names, or nil.
func CheckNames(names []string) error {
	for _, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("the owner file cannot have the name %.64q, which is not UTF-8", name)
		}
	}
	return nil
}

// parse reads the text of a file. It returns nil for an empty one.
func parse(text []byte) (*Record, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var r Record
	err := json.Unmarshal(text, &r)
	isOne := err == nil && scripts.ValidOwner(r.Owner) && len(r.Names) > 0 && len(r.Masters) > 0 &&
		r.Slot >= -1 && r.Slot < scripts.MaxSlots && (r.Slot < 0 || len(r.Names) == 1)
	for _, name := range r.Names {
		isOne = isOne && masters.CheckLockName(name) == nil
	}
	if !isOne {
		return nil, errors.New("it is no owner file of quorumlock run")
	}
	return &r, nil
}

// machine names this machine until it's restarted, where the system has such a name (Linux); otherwise it is the host.
func machine() string {
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(boot))
	}
	host, _ := os.Hostname()
	return host
}
