package node

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/plain"
)

// unfinished is what a report says at least of the quarantine of a master that a client has begun to
// mark: it grants nothing before a client finishes that, however soon.
const unfinished = time.Millisecond

// Report is the result of [Node.Check].
type Report struct {
	Name           string
	Role           string // "master"; "slave" for a replica, as Redis says
	Version        string // Redis's, or "valkey " and Valkey's
	RunID          string
	Uptime         time.Duration
	EvictionPolicy string        // maxmemory-policy; it matters when MaxMemory is not 0
	MaxMemory      uint64        // bytes, 0 for no bound
	Persistence    string        // "none", "rdb", "aof", "rdb+aof", "unknown"; "aof" also if it may be both
	MaxLease       time.Duration // the deployment's, from the server's marker; 0 when there is no marker yet
	Quarantine     time.Duration // left before the node grants
	Member         string        // which member of its clients' lists the server is; empty when no client has marked it
	Members        []string      // the list of masters whose clients the server accepts, sorted; empty when there is none
	Generation     uint64        // counts the changes of the members
	Next           []string      // the members after the change that is under way; empty for none
	RoundTrip      time.Duration // of one command
	Refused        error         // why Lock refuses the node (ErrReplica, ErrEvicts, ErrMaxLease, ...), or nil
	Hazards        []string      // what an operator should know, one sentence each; empty when all is well
}

// fill sets the fields that follow from INFO, the save points and the marker, and the hazards.
func (r *Report) fill(f info, save savePoints, view *membership.View, o options) {
	m := view.Marker()
	isClaimed := view.IsMarked() && m.Claimed
	accepts := !view.IsBlank() && !m.Claimed
	r.MaxLease = view.MaxLease()
	if accepts {
		r.Member, r.Members, r.Generation, r.Next = m.Member, m.Members.Names(), m.Generation, m.Next.Names()
	}
	r.Role, r.Version, r.RunID, r.Uptime = f.role, f.version, f.runID, f.uptime
	r.EvictionPolicy, r.MaxMemory = f.policy, f.maxMemory
	r.Persistence = persistence(f, save)
	hazard := func(format string, args ...any) {
		r.Hazards = append(r.Hazards, plain.Text(fmt.Sprintf(format, args...)))
	}

	switch r.Refused = f.refuse(); {
	case r.Refused != nil:
	case r.MaxLease != 0 && r.MaxLease != o.maxLease:
		r.Refused = membership.DifferentMaxLease(r.MaxLease, o.maxLease)
	case view.IsMarked() && m.Member != view.Process.Member:
		r.Refused = fmt.Errorf("%w: this master is the member %s of %s, and is named %s here: give it that name "+
			"(?name=... in the URL, or node.WithName)", ErrMembership, m.Member, m.Members, view.Process.Member)
	case view.IsRetired():
		r.Refused = fmt.Errorf("%w: retired: it is no member of %s (generation %d), and accepts nobody. Leave it out, or take it "+
			"back with quorumlock members add", ErrMembership, m.Members, m.Generation)
	}
	if r.Refused != nil {
		hazard("refused as a node: %v", r.Refused)
	}
	if f.role == "" {
		hazard("the server does not say whether it is a master")
	}
	if f.maxMemory > 0 && !f.evicts() {
		hazard("maxmemory is set: at that limit no lock is granted until memory is free")
	}
	if f.replicas > 0 {
		hazard("replicas are attached (%d): a replica promoted in this master's place waits in quarantine, but "+
			"a resync of this master from its own replica goes unnoticed and loses the grants that the replica lacks",
			f.replicas)
	}
	if isClaimed {
		hazard("a client has begun to mark %s, and has not finished: this master accepts nobody until its quarantine "+
			"is over, and a client with that list finds all of them", m.Members)
	}
	word, isAdmitted := view.AdmissionLeft()
	switch {
	case o.noQuarantine:
		hazard("quarantine is switched off in this client: after a restart of the master two holders are possible")
	case isAdmitted:
		hazard("an operator admitted it, and no client has marked it since: unless one uses this server within %v, "+
			"it will wait in quarantine for %v", word, o.maxLease)
	case !accepts && !isClaimed:
		r.Quarantine = o.maxLease
		hazard("no client has used this server since it started, lost its data or got another database's (SWAPDB): "+
			"it will wait in quarantine for %v from the first use", o.maxLease)
	default:
		left, _ := view.Quarantine()
		if isClaimed {
			left = max(left, unfinished)
		}
		if r.Quarantine = min(left, o.maxLease); r.Quarantine > 0 {
			hazard("in quarantine for another %v", r.Quarantine)
		}
	}
}

// savePoints is what the server says of its RDB files. A user that may not use CONFIG does not
// know.
type savePoints struct{ known, any bool }

func persistence(f info, save savePoints) string {
	switch {
	case save.any && f.aof:
		return "rdb+aof"
	case f.aof:
		return "aof"
	case save.any:
		return "rdb"
	case !save.known:
		return "unknown"
	default:
		return "none"
	}
}
