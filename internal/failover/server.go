package failover

import (
	"errors"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Server is one process of a [Group]. Replicas and Sentinels reach it at an address of their own, so that they can be
// cut off while clients are not. Its methods are safe for concurrent use.
type Server struct {
	door  *forward.Forward
	fleet *redistest.Fleet // of one
}

// sentinel is what a Sentinel says first on each connection.
const sentinel = "sentinel-"

func startServer(args ...string) (*Server, error) {
	door, err := forward.New("")
	if err != nil {
		return nil, err
	}
	s := &Server{door: door}
	host, port := s.known()
	s.fleet, err = redistest.StartReal(1, append([]string{"--replica-announce-ip", host, "--replica-announce-port", port,
		"--repl-diskless-sync-delay", "0"}, args...)...)
	if err != nil {
		door.Close()
		return nil, err
	}
	door.Lead(s.Addr())
	return s, nil
}

// known returns the address for replicas and Sentinels.
func (s *Server) known() (host, port string) {
	host, port, _ = net.SplitHostPort(s.door.Addr())
	return host, port
}

// greeting is what the server says on a connection to its primary, once that has answered.
func (s *Server) greeting() string {
	_, port := s.known()
	return fmt.Sprintf("listening-port\r\n$%d\r\n%s\r\n", len(port), port)
}

// Addr returns host:port of the process, the same over its whole life.
func (s *Server) Addr() string { return s.fleet.Masters[0].Addr() }

// Kill ends the process with SIGKILL, frozen or not.
func (s *Server) Kill() error { return s.fleet.Masters[0].Kill() }

// Start starts a killed process again, and returns when it answers PING: as a primary, until Sentinels tell it
// otherwise. It has its data if its arguments keep them.
func (s *Server) Start() error { return s.fleet.Masters[0].Start() }

// Freeze halts the process: the kernel still accepts connections and bytes for it, nothing answers.
func (s *Server) Freeze() error { return s.fleet.Masters[0].Freeze() }

// Thaw continues a frozen process, which then does what it was asked meanwhile.
func (s *Server) Thaw() error { return s.fleet.Masters[0].Thaw() }

// Do sends one command.
func (s *Server) Do(args ...any) (any, error) { return s.fleet.Masters[0].Do(args...) }

// Follow makes the server a replica of another.
func (s *Server) Follow(primary *Server) error {
	host, port := primary.known()
	_, err := s.Do("REPLICAOF", host, port)
	return err
}

// Silence stops the link between two servers, whichever is the primary: nothing of what either sends arrives, and
// neither sees the other close. Clients and Sentinels still reach both.
func (s *Server) Silence(other *Server) {
	s.door.Hold(other.greeting())
	other.door.Hold(s.greeting())
}

// Release ends Silence. What was sent meanwhile arrives.
func (s *Server) Release(other *Server) {
	s.door.Release(other.greeting())
	other.door.Release(s.greeting())
}

func (s *Server) stop() error {
	err := s.fleet.Stop()
	s.door.Close()
	return err
}

// Group is a primary and its replicas, which the Sentinels know by one name.
type Group struct {
	Name    string
	Servers []*Server // the first one began as the primary
	of      *Sentinels
}

// Primary returns the server that most Sentinels call the primary.
func (g *Group) Primary() (*Server, error) {
	votes := map[string]int{}
	var errs []error
	for _, one := range g.of.Watchers {
		addr, err := redis.Strings(one.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name))
		if err != nil || len(addr) != 2 {
			errs = append(errs, fmt.Errorf("%s: the primary's address is %q: %w", one.Addr(), addr, err))
			continue
		}
		votes[net.JoinHostPort(addr[0], addr[1])]++
	}
	for _, s := range g.Servers {
		if votes[s.door.Addr()] > len(g.of.Watchers)/2 {
			return s, nil
		}
	}
	return nil, errors.Join(append(errs, fmt.Errorf("failover: the Sentinels do not agree on the primary of %s", g.Name))...)
}

// Failover has the Sentinels promote a replica at once (SENTINEL FAILOVER). They refuse that while they know of no
// replica, or are in a failover.
func (g *Group) Failover() error {
	var errs []error
	for _, one := range g.of.Watchers {
		_, err := one.Do("SENTINEL", "FAILOVER", g.Name)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Isolate cuts a server off from the other servers and from the Sentinels, not from clients: nothing arrives, and
// nobody is told. Join ends it: then it all arrives.
func (g *Group) Isolate(s *Server) {
	s.door.Hold(sentinel)
	for _, other := range g.Servers {
		if other != s {
			s.Silence(other)
		}
	}
}

// Join ends Isolate.
func (g *Group) Join(s *Server) {
	s.door.Release(sentinel)
	for _, other := range g.Servers {
		if other != s {
			s.Release(other)
		}
	}
}

// Whole reports whether all other servers are replicas of the primary, and have its data.
func (g *Group) Whole() bool {
	primary, err := g.Primary()
	if err != nil {
		return false
	}
	for _, s := range g.Servers {
		role, err := redis.Values(s.Do("ROLE")) // of a primary "master", an offset, its replicas; of a replica the fourth is its state
		switch {
		case err != nil, s == primary && len(role) != 3, s != primary && (len(role) != 5 || fmt.Sprintf("%s", role[3]) != "connected"):
			return false
		case s == primary:
			if replicas, _ := role[2].([]any); len(replicas) != len(g.Servers)-1 {
				return false
			}
		}
	}
	return true
}
