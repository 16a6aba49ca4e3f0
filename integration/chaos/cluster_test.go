//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	operators "github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// Arguments of a server.
var (
	noDisk      []string // it forgets everything
	aofEverySec = []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	aofAlways   = []string{"--appendonly", "yes", "--appendfsync", "always"}
)

// cluster is the masters of a scenario, and the paths to them.
type cluster struct {
	log     func(format string, args ...any)
	began   time.Time
	servers []server // in the places of masters, where a replica may be promoted
	extra   []server // the other servers that were started
	paths   []*paths
	ends    []func() // of what runs beside the scenario

	replicas  int      // of each master
	sentinels []string // the masters' URLs, by Sentinels
	query     string   // of the masters' URLs, besides the name

	tracks timeline.Recorder // what the harness did to masters and clients, for the picture

	mu     sync.Mutex // of the rest, and of servers where a watcher reads them
	faults []string   // the kinds that happened, in the order of their first
	counts map[string]int
}

// newCluster starts n masters by start. Master i gets the arguments args[i%len(args)].
func newCluster(n int, start func(args ...string) (server, error), args [][]string, log func(string, ...any)) (*cluster, error) {
	if len(args) == 0 {
		args = [][]string{noDisk}
	}
	c := &cluster{log: log, began: time.Now(), servers: make([]server, n), tracks: timeline.Recorder{Now: now},
		counts: map[string]int{}}
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { c.servers[i], errs[i] = start(args[i%len(args)]...) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		c.servers = slices.DeleteFunc(c.servers, func(s server) bool { return s == nil })
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// startServer starts a server that serves a replica without delay.
func startServer(args ...string) (server, error) {
	return lab.backend.start(append([]string{"--repl-diskless-sync-delay", "0"}, args...)...)
}

// admit asserts, as the operator, that no earlier lock on the masters can be alive, and gives them
// their list of members: only a client that reaches all masters would do that.
func (c *cluster) admit(maxLease time.Duration) error {
	var members []string
	for i := range c.servers {
		members = append(members, memberName(i))
	}
	for _, url := range c.urls() {
		n, err := node.Open(url, node.WithMaxLease(maxLease), node.WithTimeout(5*time.Second))
		if err != nil {
			return err
		}
		if err := errors.Join(operators.AdmitMembers(context.Background(), n, members), n.Close()); err != nil {
			return err
		}
	}
	return nil
}

// urls are the URLs of the servers in these places, or in all. All clients know the master in a place
// by one name: those with paths too, also after a replica was promoted.
func (c *cluster) urls(places ...int) []string {
	var all []string
	for i, s := range c.servers {
		all = append(all, s.URL()+asMember(i)+c.query)
	}
	return pick(all, places)
}

// pick returns those in the places, or all if there are no places.
func pick(all []string, places []int) []string {
	if len(places) == 0 {
		return all
	}
	var some []string
	for _, i := range places {
		some = append(some, all[i])
	}
	return some
}

// memberName is the name of the master in a place, and asMember the query that gives it.
func memberName(i int) string { return fmt.Sprintf("master-%d", i+1) }
func asMember(i int) string   { return "?name=" + memberName(i) }

// happened notes a fault for the log, the report and the picture.
func (c *cluster) happened(whose string, kind, format string, args ...any) {
	c.tracks.Mark(whose, kind)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[kind] == 0 {
		c.faults = append(c.faults, kind)
	}
	c.counts[kind]++
	if os.Getenv(panicAt) == kind {
		defer func() { go panic("asked for") }() // in a goroutine of its own, where no recover stops it
	}
	c.log("+%v %s %s", time.Since(c.began).Round(time.Millisecond), kind, fmt.Sprintf(format, args...))
}

// begins notes that a fault begins now.
func (c *cluster) begins(whose string, state timeline.State, text string) {
	c.tracks.Add(whose, timeline.Span{State: state, Text: text})
}

// The parties, as rows of the picture: what goes on on a path between clients and a master is in a row below the master's.
func ofMaster(i int) string      { return fmt.Sprintf("master %d", i+1) }
func ofClient(w *worker) string  { return fmt.Sprintf("client %d", w.plan.Client) }
func (p *paths) to(i int) string { return ofMaster(i) + " ↔ " + p.group }

const nobody = ""

// told describes the faults that happened, with their counts.
func (c *cluster) told() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, kind := range c.faults {
		if n := c.counts[kind]; n > 1 {
			kind = fmt.Sprintf("%s ×%d", kind, n)
		}
		all = append(all, kind)
	}
	return strings.Join(all, ", ")
}

// keys lists the locks on all masters: every key that is not the library's own.
func (c *cluster) keys() ([]string, error) {
	var all []string
	for i, s := range c.servers {
		names, err := redis.Strings(s.Do("KEYS", "*"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, _, isSlot := scripts.ParseSlot(name); isSlot || !strings.HasPrefix(name, scripts.Prefix) {
				all = append(all, fmt.Sprintf("%s on master %d", name, i+1))
			}
		}
	}
	return all, nil
}

// stop ends all servers and paths.
func (c *cluster) stop() error {
	for _, end := range c.ends {
		end()
	}
	var stopping sync.WaitGroup
	all := slices.Concat(c.servers, c.extra)
	failed := make([]error, len(all))
	for i, s := range all {
		stopping.Go(func() { failed[i] = s.Stop() })
	}
	for _, p := range c.paths {
		p.close()
	}
	stopping.Wait()
	return errors.Join(failed...)
}

// paths are one group of clients' ways to the masters: one of its own to each, so that
// one group can be cut off, in one direction or both, and another not. A group's addresses stay
// when the server behind them is replaced.
type paths struct {
	group    string
	query    string
	forwards []*forward.Forward
	named    []string // URLs without a query that name the masters, in place of the forwards
}

// apartFor makes paths for a group of clients.
func (r *run) apartFor(group string) *paths {
	r.t.Helper()
	p := &paths{group: group, query: r.query}
	r.paths = append(r.paths, p)
	for _, s := range r.servers {
		f, err := forward.New(s.Addr())
		r.must(err)
		p.forwards = append(p.forwards, f)
	}
	return p
}

// urls are the URLs of the masters in these places, or in all.
func (p *paths) urls(places ...int) []string {
	var all []string
	for i, f := range p.forwards {
		url := "redis://" + f.Addr()
		if p.named != nil {
			url = p.named[i]
		}
		all = append(all, url+asMember(i)+p.query)
	}
	return pick(all, places)
}

func (p *paths) close() {
	for _, f := range p.forwards {
		f.Close()
	}
}
