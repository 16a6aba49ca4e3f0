package quorumchaos

import (
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/internal/masters"
	"github.com/quorumlock/quorumlock/internal/backstage"
	"github.com/quorumlock/quorumlock/internal/failover"
	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/poll"
)

const replicaBound = 15 * time.Second

func (c *Cluster) lend(in backstage.Cluster) { c.embedded = inside.Embed(&in) }

func (c *Cluster) inside() *backstage.Cluster { return inside.Of(c) }

// lendInside lends package backstage what integration/chaos does beside the faults.
func (c *Cluster) lendInside(source masters.Source) {
	in := backstage.Cluster{Names: c.names, Notes: c.notes, Promote: c.promote, Faults: c.schedules()}
	for _, m := range c.masters {
		in.Servers = append(in.Servers, m)
		if g, ok := m.(interface{ Replicated() *failover.Master }); ok {
			in.Groups = append(in.Groups, g.Replicated())
		}
	}
	in.Replica = func(of int) backstage.Server { return c.replica(source, of) }
	c.lend(in)
}

func (c *Cluster) replica(source masters.Source, of int) masters.Master {
	c.tb.Helper()
	r, err := source.Start("--repl-diskless-sync-delay", "0")
	c.must(err)
	c.tb.Cleanup(func() { c.must(r.Stop()) })
	host, port, err := net.SplitHostPort(c.masters[of].Addr())
	c.must(err)
	_, err = r.Do("REPLICAOF", host, port)
	c.must(err)
	var role []any
	if !poll.Until(replicaBound, func() bool {
		role, err = redis.Values(r.Do("ROLE"))
		return err == nil && len(role) > 3 && fmt.Sprintf("%s", role[3]) == "connected"
	}) {
		c.must(fmt.Errorf("the replica of master %d has not caught up: %q, %w", of, role, err))
	}
	return r
}

func (c *Cluster) promote(replica backstage.Server, i int) {
	c.tb.Helper()
	c.note("Promote", i, c.names[i], up)
	c.must(c.masters[i].Kill())
	_, err := replica.Do("REPLICAOF", "NO", "ONE")
	c.must(err)
	c.must(c.masters[i].Become(replica.(masters.Master)))
}
