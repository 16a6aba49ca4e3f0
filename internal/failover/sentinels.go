// Package failover runs Redis primaries with replicas, and three Sentinels that promote a replica when a primary fails,
// as redis-server processes of this machine. Tests kill, freeze and isolate each of them.
package failover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	sentinels  = 3
	readyBound = 30 * time.Second // on a busy machine
	downAfter  = 500 * time.Millisecond
	timeout    = 2 * time.Second // more than the second between two looks at the server that is promoted; twice this, and a failed failover is tried again
)

// periods are those of the Sentinels' own work, in milliseconds. By default seconds pass until they know each other, and
// until a primary that comes back is made a replica; and a Sentinel that stood still for 2 s promotes nobody for 30 s.
// They promote only a replica that they looked at within three INFO periods, and while its primary is down they look at it
// once a second, so that a shorter INFO period makes failovers fail. Sentinels before 7.0 have no such setting.
var periods = []any{"SENTINEL", "DEBUG", "INFO-PERIOD", 500, "ASK-PERIOD", 100, "PUBLISH-PERIOD", 200,
	"MIN-LINK-RECONNECT-PERIOD", 100, "TILT-PERIOD", 1000}

// Sentinels are three Sentinels, and the groups that they watch.
type Sentinels struct {
	Groups   []*Group
	Watchers []*redistest.Master // the Sentinels

	dir    string
	fleets []*redistest.Fleet
}

// Start starts that many groups, master-0 and so on, each a primary with that many replicas, and the Sentinels, which
// call a primary down when it has not answered for 500 ms. It returns when the replicas have their primary's data and
// the Sentinels know all of them. args are for every server; without --appendonly yes it keeps nothing on disk. The
// error wraps redistest.ErrNoServer if this machine has no redis-server.
func Start(groups, replicas int, args ...string) (*Sentinels, error) {
	s := &Sentinels{}
	if err := s.start(groups, replicas, args); err != nil {
		return nil, errors.Join(fmt.Errorf("failover: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Sentinels) start(groups, replicas int, args []string) (err error) {
	if s.dir, err = os.MkdirTemp("", "quorumlock-sentinels-"); err != nil {
		return err
	}
	var conf strings.Builder
	for i := range groups {
		g := &Group{Name: fmt.Sprintf("master-%d", i), of: s}
		s.Groups = append(s.Groups, g)
		for range 1 + replicas {
			one, err := startServer(args...)
			if err != nil {
				return err
			}
			g.Servers = append(g.Servers, one)
			if len(g.Servers) > 1 {
				if err := one.Follow(g.Servers[0]); err != nil {
					return err
				}
			}
		}
		host, port := g.Servers[0].known()
		fmt.Fprintf(&conf, "sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s %d\n",
			g.Name, host, port, g.Name, downAfter.Milliseconds(), g.Name, timeout.Milliseconds())
	}
	for i := range sentinels {
		file := filepath.Join(s.dir, fmt.Sprintf("sentinel-%d.conf", i+1)) // of its own: it rewrites it
		if err := os.WriteFile(file, []byte(conf.String()), 0o600); err != nil {
			return err
		}
		fleet, err := redistest.StartReal(1, file, "--sentinel")
		if err != nil {
			return err
		}
		s.fleets, s.Watchers = append(s.fleets, fleet), append(s.Watchers, fleet.Masters[0])
		_, _ = fleet.Masters[0].Do(periods...)
	}
	if !poll.Until(readyBound, s.ready) {
		return fmt.Errorf("the Sentinels do not know all servers within %v", readyBound)
	}
	return nil
}

// ready reports whether each Sentinel knows the others and all replicas, and these have their primaries' data.
func (s *Sentinels) ready() bool {
	for _, g := range s.Groups {
		for _, one := range s.Watchers {
			others, err := redis.Values(one.Do("SENTINEL", "SENTINELS", g.Name))
			replicas, failed := redis.Values(one.Do("SENTINEL", "REPLICAS", g.Name))
			if err != nil || failed != nil || len(others) != sentinels-1 || len(replicas) != len(g.Servers)-1 {
				return false
			}
			if _, err := one.Do("SENTINEL", "CKQUORUM", g.Name); err != nil {
				return false
			}
		}
		if !g.Whole() {
			return false
		}
	}
	return true
}

// URLs returns the groups' URLs, for redlock.Open: clients ask the Sentinels where the primary is.
func (s *Sentinels) URLs() (all []string) {
	var hosts []string
	for _, one := range s.Watchers {
		hosts = append(hosts, one.Addr())
	}
	for _, g := range s.Groups {
		all = append(all, fmt.Sprintf("redis+sentinel://%s/%s?failover=%d", strings.Join(hosts, ","), g.Name, len(g.Servers)-1))
	}
	return all
}

// Stop ends all processes, and removes their files. A second call does nothing.
func (s *Sentinels) Stop() error {
	var errs []error
	for _, fleet := range s.fleets { // first: no failover while the servers end
		errs = append(errs, fleet.Stop())
	}
	for _, g := range s.Groups {
		for _, one := range g.Servers {
			errs = append(errs, one.stop())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
