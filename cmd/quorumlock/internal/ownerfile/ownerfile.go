// Package ownerfile keeps in a file which owner has the lock of a running job, so that the lock of a process that
// died can be released at once. The writer has the file locked (flock), and so has its job, which inherits the
// descriptor. Because programs close descriptors, the file also has the job's process group. While a process of these
// lives, nobody else opens the file.
package ownerfile

import (
	"bytes"
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
	"github.com/quorumlock/quorumlock/scripts/operators"
)

// ErrInUse is the error of [Open] for the file of a process that is alive.
var ErrInUse = errors.New("it is in use")

// Record is the content of a file.
type Record struct {
	Owner   string   `json:"owner"` // or its first part, the locker's id, before there is a lock
	Names   []string `json:"names"`
	Slots   int      `json:"slots"`   // of the semaphore that Names has; 0 for locks
	Slot    int      `json:"slot"`    // that was taken; −1 for none
	Masters []string `json:"masters"` // their names
	Machine string   `json:"machine"` // until its restart: see machine
	File    string   `json:"file"`    // which file it was written to: a copy's owner may be alive
	Job     Job      `json:"job"`
	isCopy  bool
}

// Job is a process group.
type Job struct {
	Group     int    `json:"group"`     // its number, which is its leader's; 0 for no job
	Started   string `json:"started"`   // when its leader was, in the system's ticks; empty if that is unknown
	Namespace string `json:"namespace"` // in which the number counts; empty if there are no namespaces
}

// New returns the record of a locker, by its id, that wants locks, or a slot of a semaphore, on this machine.
func New(locker string, names []string, slots int, nodes []*node.Node) Record {
	return Record{Owner: locker, Names: names, Slots: slots, Slot: -1, Masters: masters.List(nodes).Names(), Machine: machine()}
}

// Locks returns the names of the locks on the masters.
func (r Record) Locks() (names []string) {
	switch {
	case r.Slots == 0:
		return r.Names
	case r.Slot >= 0:
		return []string{scripts.SlotName(r.Names[0], r.Slot)}
	}
	for slot := range r.Slots {
		names = append(names, scripts.SlotName(r.Names[0], slot))
	}
	return names
}

// IsOf reports whether an owner is the wanted one, or belongs to the wanted locker.
func IsOf(owner, wanted string) bool { return strings.HasPrefix(owner+":", wanted+":") }

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

// parse reads the text of a file. It returns nil for an empty one, and for one that nobody has written to the end.
func parse(text []byte) (*Record, error) {
	line, _, whole := bytes.Cut(text, []byte("\n")) // what follows is left of a longer one
	if len(text) == 0 || !whole && bytes.HasPrefix(line, []byte(`{"owner":`)) {
		return nil, nil
	}
	var r Record
	err := json.Unmarshal(line, &r)
	isOne := err == nil && (operators.ValidOwner(r.Owner) || operators.ValidOwner(r.Owner+":0")) && len(r.Names) > 0 &&
		len(r.Masters) > 0 && r.Slots >= 0 && r.Slots <= scripts.MaxSlots && r.Slot >= -1 && (r.Slots == 0 || len(r.Names) == 1) &&
		r.Slot < r.Slots && r.Job.Group >= 0 && r.Job.Group != 1
	for _, name := range r.Names {
		isOne = isOne && masters.CheckLockName(name) == nil
	}
	if !isOne {
		return nil, errors.New("it is no owner file of quorumlock run")
	}
	return &r, nil
}

// machine names this machine until its restart, if the system has such a name (Linux); otherwise it is the host's name.
func machine() string {
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(boot))
	}
	host, _ := os.Hostname()
	return host
}
