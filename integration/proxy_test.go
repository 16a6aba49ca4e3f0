package integration_test

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// network is a proxy in front of each master of a fleet.
type network struct{ proxies []*proxy }

// proxied puts a proxy in front of each master, until the test ends.
func proxied(t *testing.T, f *redistest.Fleet) *network {
	t.Helper()
	n := &network{}
	for _, m := range f.Masters {
		port, held, err := redistest.ClaimPort() // no other test's server answers where a proxy has closed
		must(t, err)
		t.Cleanup(func() { held.Close() })
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		must(t, err)
		p := &proxy{listener: listener, upstream: m.Addr()}
		p.running.Go(p.accept)
		t.Cleanup(func() {
			p.refuse()
			p.running.Wait()
		})
		n.proxies = append(n.proxies, p)
	}
	return n
}

// URLs returns the proxies' URLs, with the names that the masters have for clients without a proxy.
func (n *network) URLs() []string {
	urls := make([]string, len(n.proxies))
	for i, p := range n.proxies {
		urls[i] = "redis://" + p.listener.Addr().String() + "?name=" + p.upstream
	}
	return urls
}

// direction of bytes through a proxy.
type direction int

const (
	requests direction = iota // to the master
	replies                   // from it
)

// proxy carries connections to one master.
type proxy struct {
	listener net.Listener
	upstream string
	running  sync.WaitGroup

	mu      sync.Mutex
	refuses bool
	loses   [2]bool
	conns   []*carried
}

// carried is one connection: its two ends.
type carried struct {
	ends  [2]net.Conn // [requests] leads to the master, [replies] to the client
	lossy bool
}

func (c *carried) cut() {
	c.ends[requests].Close()
	c.ends[replies].Close()
}

// lose loses what comes in these directions from now on.
func (p *proxy) lose(ds ...direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range ds {
		p.loses[d] = true
	}
}

// heal loses nothing any more, and cuts the connections that have lost bytes.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loses = [2]bool{}
	for _, c := range p.conns {
		if c.lossy {
			c.cut()
		}
	}
}

// refuse closes the connections, and refuses new ones for good.
func (p *proxy) refuse() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
	for _, c := range p.conns {
		c.cut()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		master, err := net.DialTimeout("tcp", p.upstream, patience)
		if err != nil {
			client.Close()
			continue
		}
		c := &carried{ends: [2]net.Conn{requests: master, replies: client}}
		p.mu.Lock()
		p.conns = append(p.conns, c)
		if p.refuses {
			c.cut()
		}
		p.mu.Unlock()
		p.running.Go(func() { p.carry(c, requests, client) })
		p.running.Go(func() { p.carry(c, replies, master) })
	}
}

// carry forwards what comes from one end to the other, then closes both.
func (p *proxy) carry(c *carried, d direction, from net.Conn) {
	defer c.cut()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.isLost(c, d) {
			c.ends[d].Write(buffer[:n]) // on failure the rest is read, and dropped
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) isLost(c *carried, d direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.lossy = c.lossy || p.loses[d]
	return p.loses[d]
}
