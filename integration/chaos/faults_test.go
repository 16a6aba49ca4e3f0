//go:build unix

package chaos

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/timeline"
)

// Each method is a fault. Its name says what it does, its argument to which master, counted from 0
// here and from 1 in the log. It returns when the fault is in effect. An error is a failure of the
// harness itself.

const replicaBound = 15 * time.Second

func (c *cluster) kill(i int) error {
	c.happened(ofMaster(i), "kill", "master %d", i+1)
	c.begins(ofMaster(i), timeline.Down, "dead")
	return c.servers[i].Kill()
}

// restart starts a killed master. Its arguments decide what it kept on disk.
func (c *cluster) restart(i int) error {
	c.happened(ofMaster(i), "restart", "master %d", i+1)
	err := c.servers[i].Start()
	c.tracks.End(ofMaster(i), "dead")
	return err
}

// crash kills a master and starts it again.
func (c *cluster) crash(i int) error {
	if err := c.kill(i); err != nil {
		return err
	}
	return c.restart(i)
}

// loseTail stops a master's writes to its append-only file: when it crashes, it loses everything
// since, as a machine's crash loses the last second of everysec. (A crash of the process alone
// loses nothing that the kernel has received.)
func (c *cluster) loseTail(i int) error {
	c.happened(ofMaster(i), "lose the tail of the append-only file", "master %d", i+1)
	return c.do(i, "CONFIG", "SET", "appendonly", "no")
}

func (c *cluster) pause(i int) error {
	c.happened(ofMaster(i), "pause", "master %d", i+1)
	c.begins(ofMaster(i), timeline.Down, "frozen")
	return c.servers[i].Freeze()
}

func (c *cluster) unpause(i int) error {
	c.log("+%v unpause master %d", time.Since(c.began).Round(time.Millisecond), i+1)
	err := c.servers[i].Thaw()
	c.tracks.End(ofMaster(i), "frozen")
	return err
}

// disconnect takes a master off its network, if the back end can (see canDisconnect).
func (c *cluster) disconnect(i int) error {
	c.happened(ofMaster(i), "disconnect", "master %d", i+1)
	c.begins(ofMaster(i), timeline.Down, "off the network")
	return c.servers[i].(pluggable).Disconnect()
}

func (c *cluster) reconnect(i int) error {
	c.log("+%v reconnect master %d", time.Since(c.began).Round(time.Millisecond), i+1)
	err := c.servers[i].(pluggable).Reconnect()
	c.tracks.End(ofMaster(i), "off the network")
	return err
}

func (c *cluster) canDisconnect() bool {
	_, can := c.servers[0].(pluggable)
	return can
}

// cut loses everything between a group and a master, both ways; loseReplies only the replies,
// loseRequests only the requests.
func (c *cluster) cut(p *paths, i int) {
	c.happened(ofMaster(i), "partition", "%s from master %d", p.group, i+1)
	c.begins(p.to(i), timeline.Down, "cut off")
	p.forwards[i].Lose()
}

func (c *cluster) loseReplies(p *paths, i int) {
	c.happened(ofMaster(i), "lose replies", "of master %d to %s", i+1, p.group)
	c.begins(p.to(i), timeline.Hindered, "replies lost")
	p.forwards[i].LoseReplies()
}

func (c *cluster) loseRequests(p *paths, i int) {
	c.happened(ofMaster(i), "lose requests", "of %s to master %d", p.group, i+1)
	c.begins(p.to(i), timeline.Hindered, "requests lost")
	p.forwards[i].LoseRequests()
}

func (c *cluster) slow(p *paths, i int, latency, jitter time.Duration) {
	c.happened(ofMaster(i), "latency", "%v ± %v from %s to master %d", latency, jitter, p.group, i+1)
	c.begins(p.to(i), timeline.Hindered, "slow")
	p.forwards[i].DelayRequests(latency, jitter)
}

func (c *cluster) heal(p *paths, i int) {
	c.log("+%v heal %s to master %d", time.Since(c.began).Round(time.Millisecond), p.group, i+1)
	p.forwards[i].Heal()
	c.tracks.End(p.to(i), "")
}

func (c *cluster) clientPause(i int, d time.Duration) error {
	c.happened(ofMaster(i), "CLIENT PAUSE", "%v, master %d", d, i+1)
	c.tracks.Add(ofMaster(i), timeline.Span{To: now() + d, State: timeline.Hindered, Text: "CLIENT PAUSE"})
	return c.do(i, "CLIENT", "PAUSE", d.Milliseconds(), "ALL")
}

func (c *cluster) clientKill(i int) error {
	c.happened(ofMaster(i), "CLIENT KILL", "master %d", i+1)
	return c.do(i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

func (c *cluster) scriptFlush(i int) error {
	c.happened(ofMaster(i), "SCRIPT FLUSH", "master %d", i+1)
	return c.do(i, "SCRIPT", "FLUSH")
}

func (c *cluster) flushAll(i int) error {
	c.happened(ofMaster(i), "FLUSHALL", "master %d", i+1)
	return c.do(i, "FLUSHALL")
}

// fill leaves a master no free memory, and it evicts nothing. drain ends that.
func (c *cluster) fill(i int) error {
	c.happened(ofMaster(i), "maxmemory", "master %d", i+1)
	c.begins(ofMaster(i), timeline.Hindered, "full")
	return c.do(i, "CONFIG", "SET", "maxmemory", "1")
}

func (c *cluster) drain(i int) error {
	defer c.tracks.End(ofMaster(i), "full")
	return c.do(i, "CONFIG", "SET", "maxmemory", "0")
}

// replicaOf makes a master the replica of another, which replaces its data; independent makes it a
// master again.
func (c *cluster) replicaOf(i, of int) error {
	c.happened(ofMaster(i), "REPLICAOF", "master %d of master %d", i+1, of+1)
	c.begins(ofMaster(i), timeline.Hindered, "replica")
	return follow(c.servers[i], c.servers[of])
}

func (c *cluster) independent(i int) error {
	defer c.tracks.End(ofMaster(i), "replica")
	return c.do(i, "REPLICAOF", "NO", "ONE")
}

// replica starts a replica of a master and waits until it has the data. cutOff stops its
// replication.
func (c *cluster) replica(of int) (server, error) {
	r, err := startServer()
	if err != nil {
		return nil, err
	}
	c.extra = append(c.extra, r)
	if err := follow(r, c.servers[of]); err != nil {
		return nil, err
	}
	var role []any
	if !poll.Until(replicaBound, func() bool {
		role, err = redis.Values(r.Do("ROLE"))
		return err == nil && len(role) > 3 && fmt.Sprintf("%s", role[3]) == "connected"
	}) {
		return nil, fmt.Errorf("the replica of master %d has not caught up: %q, %v", of+1, role, err)
	}
	return r, nil
}

// cutOff stops a replica's replication; it keeps its data. No server listens on port 1.
func (c *cluster) cutOff(replica server) error {
	c.happened(nobody, "replica cut off", "%s", replica.Addr())
	_, err := replica.Do("REPLICAOF", "127.0.0.1", "1")
	return err
}

// promote kills a master and puts a replica in its place, behind the same addresses of all groups.
func (c *cluster) promote(replica server, i int) error {
	c.happened(ofMaster(i), "replica promoted", "in the place of master %d", i+1)
	if err := c.servers[i].Kill(); err != nil {
		return err
	}
	if _, err := replica.Do("REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	for _, p := range c.paths {
		p.forwards[i].Turn(replica.Addr())
	}
	c.extra = slices.DeleteFunc(c.extra, func(s server) bool { return s == replica })
	c.mu.Lock() // the watcher of pictures reads it
	dead := c.servers[i]
	c.servers[i] = replica
	c.mu.Unlock()
	return dead.Stop()
}

func follow(replica, master server) error {
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		return err
	}
	_, err = replica.Do("REPLICAOF", host, port)
	return err
}

func (c *cluster) do(i int, args ...any) error {
	_, err := c.servers[i].Do(args...)
	return err
}
