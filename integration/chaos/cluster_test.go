//go:build unix

package chaos

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	operators "github.com/quorumlock/quorumlock/quorum/operator"
)

// Arguments of a server.
var (
	noDisk      = []string{} // it forgets everything
	aofEverySec = []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	aofAlways   = []string{"--appendonly", "yes", "--appendfsync", "always"}
)

// cluster is the masters of a scenario, with what the kit does not export.
type cluster struct {
	*quorumchaos.Cluster
	*stage
	paths []*paths
}

type stage = backstage.Cluster

func (s scenario) start(r *run) *cluster {
	byOwn := s.replicas > 0 && !r.ours() // a master is admitted with the number of replicas that must acknowledge
	set := quorumchaos.Setup{Node: []node.Option{node.WithMaxLease(r.lease)}, Args: s.disks, Clocks: s.clocks, Replicas: s.replicas,
		Strangers: s.founded || byOwn}
	if s.disks == nil {
		set.Args = [][]string{noDisk}
	}
	kit := lab.backend.Start(r.t, r.n+s.spares, set)
	c := &cluster{Cluster: kit, stage: inside.Of(kit)}
	if r.result.isDrawn() {
		c.Notes.Tracks = &timeline.Recorder{Now: now}
	}
	if byOwn && !s.founded {
		for _, url := range c.Apart("the operator").URLs() { // Sentinels want to know the replicas
			n, err := node.Open(r.known(url), append(set.Node, node.WithTimeout(5*time.Second))...)
			testkit.Must(r.t, err)
			testkit.Must(r.t, errors.Join(operators.AdmitMembers(context.Background(), n, c.Names), n.Close()))
		}
	}
	return c
}

// urls are the URLs of the masters in these places, or in all.
func (c *cluster) urls(places ...int) []string { return pick(c.URLs(), places) }

func pick(all []string, places []int) (some []string) {
	if len(places) == 0 {
		return all
	}
	for _, i := range places {
		some = append(some, all[i])
	}
	return some
}

// happened notes a fault that is not the kit's, for the log and the report.
func (c *cluster) happened(kind, format string, args ...any) {
	if os.Getenv(panicAt) == kind {
		defer func() { go panic("asked for") }() // in a goroutine of its own, where no recover stops it
	}
	c.Notes.Happened("", kind, kind+" "+format, args...)
}

// keys lists the locks on all masters.
func (c *cluster) keys() (all []string, err error) {
	for i, s := range c.Servers {
		names, failed := testkit.Locks(s)
		for _, name := range names {
			all = append(all, name+" on "+c.Names[i])
		}
		err = errors.Join(err, failed)
	}
	return all, err
}

// paths are one group of clients' ways to the masters, so that one group can be cut off, in one direction or both, and
// another not.
type paths struct {
	*quorumchaos.Cluster
	group string
}

func (r *run) apartFor(group string) *paths {
	r.t.Helper()
	p := &paths{r.Apart(group), group}
	r.paths = append(r.paths, p)
	return p
}

// urls are the URLs of the masters in these places, or in all.
func (p *paths) urls(places ...int) []string { return pick(p.URLs(), places) }

func healAll(all ...*paths) {
	for _, p := range all {
		p.Heal(placesTo(len(p.URLs()))...)
	}
}

func (p *paths) relays() []*forward.Forward { return inside.Of(p.Cluster).Relays }
