package operator

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/looks"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// unfinished is the least Report.Quarantine of a master that a client has begun to mark: it grants nothing before a
// client finishes that.
const unfinished = time.Millisecond

// memoryNearlyFull is from which share of maxmemory on, in percent, a report warns.
const memoryNearlyFull = 80

// clockOff is by how much clocks that are synchronised do not differ.
const clockOff = 500 * time.Millisecond

// Report is the result of [Check].
type Report struct {
	Name           string
	Role           string // "master"; "slave" for a replica, as Redis says
	Version        string // Redis's, or "valkey " and Valkey's
	RunID          string
	Uptime         time.Duration
	EvictionPolicy string        // maxmemory-policy; it matters when MaxMemory is not 0
	MaxMemory      uint64        // bytes, 0 for no bound
	Persistence    string        // "none", "rdb", "aof", "rdb+aof", "unknown"; "aof" also if it may be both
	MaxLease       time.Duration // the deployment's, which clients have written to the server (its marker); 0 when none has yet
	Replicas       int           // that may take its place, and acknowledge each lock, as its clients say; 0 for none
	Quarantine     time.Duration // left before the node grants; at least 1 ms while a client has begun to mark it and none has finished
	Member         string        // which member of its clients' lists the server is; empty when no client has marked it
	Members        []string      // the list of masters whose clients the server accepts, sorted; empty for no list
	Generation     uint64        // counts the changes of the members
	Next           []string      // the members after the change that is under way; empty for none
	RoundTrip      time.Duration // of one command
	ClockAhead     time.Duration // by how much at least the server's clock is ahead of this machine's; negative: behind
	Refused        error         // why Lock refuses the node (node.ErrReplica, node.ErrEvicts, node.ErrMaxLease, ...), or nil
	RefusesWrites  error         // why the server writes nothing now, and grants nothing, as a *node.Error: its memory is full, or a replica is missing; or nil
	Hazards        []string      // what an operator should know, one sentence each; empty when all is well

	embedded // the look, which the command reaches by inside.Of
}

type embedded = inside.Embedded[looks.Look]

// fill sets the fields that follow from INFO, the save points, the marker, why writes are refused, and why
// the address leads to two masters, and the hazards.
func (r *Report) fill(v visit, save savePoints, look looks.Look, refusal, two error) {
	r.embedded = inside.Embed(look)
	in, maxLease, view := inside.Of(v.node), v.node.MaxLease(), look.View
	m := view.Marker()
	isClaimed := view.IsMarked() && m.Claimed
	accepts := !view.IsBlank() && !m.Claimed
	r.MaxLease, r.Replicas = view.MaxLease(), m.Replicas()
	if accepts {
		r.Member, r.Members, r.Generation, r.Next = m.Member, m.Members.Names(), m.Generation, m.Next.Names()
	}
	r.Name, r.RunID, r.Role = v.node.Name(), v.info["run_id"], plain.Text(v.info["role"])
	r.Version = plain.Text(v.info["redis_version"])
	if version := v.info["valkey_version"]; version != "" {
		r.Version = "valkey " + plain.Text(version)
	}
	r.Uptime = time.Duration(v.info.Number("uptime_in_seconds")) * time.Second
	r.EvictionPolicy, r.MaxMemory = plain.Text(v.info["maxmemory_policy"]), v.info.Number("maxmemory")
	r.Persistence = persistence(v.info["aof_enabled"] == "1", save)
	hazard := func(format string, args ...any) {
		r.Hazards = append(r.Hazards, plain.Text(fmt.Sprintf(format, args...)))
	}

	switch r.Refused = cmp.Or(in.Server.Refuse(v.info), two); {
	case r.Refused != nil:
	case r.MaxLease != 0 && r.MaxLease != maxLease:
		r.Refused = membership.DifferentMaxLease(r.MaxLease, maxLease)
	case view.DiffersInReplicas() != nil:
		r.Refused = view.DiffersInReplicas()
	case view.IsMarked() && m.Member != view.Process.Member:
		r.Refused = fmt.Errorf("%w: this master is the member %s of %s, and is named %s here: give it that name "+
			"(?name=... in the URL, or node.WithName)", node.ErrMembership, m.Member, m.Members, view.Process.Member)
	case change.IsRetired(view):
		r.Refused = fmt.Errorf("%w: retired: it is no member of %s (generation %d), and accepts nobody. Leave it out, or take it "+
			"back with quorumlock members add", node.ErrMembership, m.Members, m.Generation)
	}
	if r.Refused != nil {
		hazard("refused as a node: %v", r.Refused)
	} else if refusal != nil {
		r.RefusesWrites = &node.Error{Node: r.Name, Op: "write", Err: refusal}
		because := ", because it refuses writes"
		if errors.Is(refusal, redisconn.ErrNotReplicated) {
			because = ""
		}
		hazard("it grants nothing%s: %s", because, strings.TrimPrefix(r.RefusesWrites.Error(), "node "+r.Name+": write: "))
	}
	if r.Role == "" {
		hazard("the server does not say whether it is a master")
	}
	if used := v.info.Number("used_memory"); r.MaxMemory > 0 && !v.info.Evicts() && used >= r.MaxMemory/100*memoryNearlyFull {
		hazard("%d MB of the %d MB that maxmemory allows are used: at that limit no lock is granted until memory is free",
			used>>20, r.MaxMemory>>20)
	}
	if r.ClockAhead.Abs() >= clockOff {
		where := "ahead of"
		if r.ClockAhead < 0 {
			where = "behind"
		}
		hazard("its clock is %v %s this machine's: synchronise them, and set none forward while clients lock, which ends leases early",
			r.ClockAhead.Abs().Round(100*time.Millisecond), where)
	}
	if replicas := v.info.Number("connected_slaves"); replicas > 0 && v.conn.Seal.Replicas == 0 {
		hazard(membership.UnsealedReplicas, replicas)
	}
	switch {
	case isClaimed && !m.Members.Has(m.Member):
		hazard("it is being added to %s: this master accepts nobody until the same members add goes on", m.Members)
	case isClaimed && view.Quarantine() > 0:
		hazard("it is being marked for %s: this master accepts nobody until its quarantine is over, and a client with that list "+
			"finds a majority with it, or all of them", m.Members)
	case isClaimed:
		hazard("it is being marked for %s: this master accepts nobody until a client with that list locks and finds "+
			"a majority with it, or all of them", m.Members)
	}
	word, isAdmitted := change.AdmissionLeft(view)
	switch {
	case in.Quarantine == 0:
		hazard("quarantine is switched off in this client: after a restart of the master two holders are possible")
	case isAdmitted:
		hazard("an operator admitted it, and no client has marked it since: unless one uses this server within %v, "+
			"it will wait in quarantine for %v", word, maxLease)
	case !accepts && !isClaimed && r.Refused != nil:
		r.Quarantine = maxLease
	case !accepts && !isClaimed:
		r.Quarantine = maxLease
		hazard("no client has used this server since it started, was promoted, lost its data or got another database's (SWAPDB): "+
			"it will wait in quarantine for %v from the first use", maxLease)
	default:
		if r.Quarantine = min(view.Quarantine(), r.MaxLease); r.Quarantine > 0 {
			hazard("in quarantine for another %v", r.Quarantine)
		}
		if isClaimed {
			r.Quarantine = max(r.Quarantine, unfinished)
		}
	}
}

func persistence(aof bool, save savePoints) string {
	switch {
	case save.any && aof:
		return "rdb+aof"
	case aof:
		return "aof"
	case save.any:
		return "rdb"
	case !save.known:
		return "unknown"
	default:
		return "none"
	}
}
