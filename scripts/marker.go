package scripts

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Process is what a connection knows about its node: the process and database, the max lease of its clients, and the
// member that they take it for.
type Process struct {
	Run      string // see MarkerRun
	MaxLease time.Duration
	Member   string // the node's name
}

// IsInDatabase reports whether two processes are of one database, by their numbers.
func (p Process) IsInDatabase(of Process) bool {
	_, database, _ := strings.Cut(p.Run, "/")
	_, other, _ := strings.Cut(of.Run, "/")
	return database == other
}

// Replicas returns how many replicas may take the process's place, by its run; 0 for none.
func (p Process) Replicas() int {
	run, _, _ := strings.Cut(p.Run, "/")
	parts := strings.Split(run, ".")
	if len(parts) != 3 {
		return 0
	}
	replicas, _ := strconv.Atoi(parts[2])
	return replicas
}

// String returns the process as the first line of a marker has it.
func (p Process) String() string {
	return fmt.Sprintf("%s %d %s", p.Run, p.MaxLease.Milliseconds(), escapeName(p.Member))
}

// Expected returns the first line of this process's marker if it was admitted long ago and its members are the list.
func (p Process) Expected(list *List) string {
	return "0 " + p.String() + " " + list.digest + "\n"
}

// ParseProcess reads what String returns.
func ParseProcess(text string) (Process, error) { return parseProcess(strings.Fields(text)) }

func parseProcess(fields []string) (p Process, err error) {
	if len(fields) != 3 {
		return p, errMarker
	}
	if p.MaxLease, err = instant(fields[1]); err != nil {
		return p, err
	}
	p.Run = fields[0]
	if p.Member, err = url.PathUnescape(fields[2]); err != nil {
		return p, errMarker
	}
	return p, nil
}

// Marker is what a node says of itself: which process it is, when it may start to grant, and whom it accepts. Only
// the scripts write it.
type Marker struct {
	Process
	Admitted   time.Duration // when the node may grant, by its clock, since 1970; 0 for long ago
	Claimed    bool          // a client is marking all blank members; nobody is accepted yet
	Generation uint64        // counts the changes of the members
	Change     time.Duration // when the members may change again, by the node's clock, since 1970
	Members    *List         // empty for a node that an operator has admitted, and no client has marked
	Next       *List         // the members after the change that is under way; empty for none

	spelled string // the member's name, if the text that was read spells it otherwise
}

// claimSign precedes both digests of a claim, so that no client's digest equals either.
const claimSign = "?"

var errMarker = errors.New("the text is no marker")

// lines returns the lines of the marker, starting at the digest of the members, without the time of the next change,
// which mark writes between them.
func (m Marker) lines() (first, last string) {
	sign := ""
	if m.Claimed {
		sign = claimSign
	}
	return fmt.Sprintf("%s%s\n%d", sign, m.Members.digest, m.Generation),
		fmt.Sprintf("%s\n%s%s %s", m.Members.text, sign, m.Next.digest, m.Next.text)
}

// Quarantine returns how long the node grants nothing new, if its clock shows now; 0 for none.
func (m Marker) Quarantine(now time.Duration) time.Duration { return max(m.Admitted-now, 0) }

// String returns the marker as the node keeps it.
func (m Marker) String() string {
	first, last := m.lines()
	return fmt.Sprintf("%d %s %s %d\n%s", m.Admitted.Milliseconds(), m.process(), first, m.Change.Milliseconds(), last)
}

// process is the marker's process as the text spells it.
func (m Marker) process() Process {
	return Process{m.Run, m.MaxLease, cmp.Or(m.spelled, m.Member)}
}

// Expected is [Process.Expected] for a process whose marker is m. It spells the names as m does: the scripts compare
// texts.
func (m Marker) Expected(p Process, list *List) string {
	if m.Member == p.Member {
		p.Member = m.process().Member
	}
	for _, has := range []*List{m.Members, m.Next} {
		if has.Equal(list) {
			return p.Expected(has)
		}
	}
	return p.Expected(list)
}

// ParseMarker reads the text of a marker. Its names are canonical, however they are spelled there.
func ParseMarker(text string) (m Marker, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return m, errMarker
	}
	first, second, last := strings.Split(lines[0], " "), strings.Split(lines[1], " "), strings.Split(lines[3], " ")
	if len(first) != 5 || len(second) != 2 || len(last) != 2 {
		return m, errMarker
	}
	process, _ := parseProcess(first[1:4])
	admitted, _ := instant(first[0])
	generation, _ := strconv.ParseUint(second[0], 10, 53)
	change, _ := instant(second[1])
	m = Marker{Process: process, Admitted: admitted, Claimed: strings.HasPrefix(first[4], claimSign), Generation: generation,
		Change: change, Members: parseList(lines[2]), Next: parseList(last[1])}
	if m.String() != text { // what cannot be read is written otherwise, and so is the digest of another list
		return Marker{}, errMarker
	}
	if name := Canonical(m.Member); name != m.Member {
		m.Member, m.spelled = name, m.Member
	}
	return m, nil
}

// instant reads a duration in milliseconds; an instant counts from 1970.
func instant(text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > maxMillis {
		return 0, errMarker
	}
	return time.Duration(ms) * time.Millisecond, nil
}
