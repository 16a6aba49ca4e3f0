package integration_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

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
		p := &proxy{listener: listener, upstream: m.Addr(), changed: make(chan struct{}), closed: make(chan struct{})}
		p.running.Go(p.accept)
		t.Cleanup(p.close)
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

// each does the same to every proxy.
func (n *network) each(do func(*proxy)) {
	for _, p := range n.proxies {
		do(p)
	}
}

// saw counts how often the text was sent to the masters, over all proxies.
func (n *network) saw(text string) int {
	times := 0
	n.each(func(p *proxy) { times += p.saw(text) })
	return times
}

// direction of bytes through a proxy.
type direction int

const (
	requests direction = iota // to the master
	replies                   // from it
)

// weather is what happens to bytes in one direction. As on a real network, what a client sent
// before it closed its end still arrives, however late.
type weather struct {
	latency, jitter time.Duration // each piece is late by latency and a random time up to jitter; order is kept
	held            bool          // nothing arrives until this ends, then everything does
	dropped         bool          // what would arrive is lost; when this ends, connections that lost bytes are cut
}

// proxy carries connections to one master.
type proxy struct {
	listener net.Listener
	upstream string
	running  sync.WaitGroup
	closed   chan struct{}

	mu      sync.Mutex
	now     [2]weather
	changed chan struct{} // closed when now changes
	conns   []*carried
	sent    bytes.Buffer // all that clients sent
	trap    string       // a request that contains it sets off the trap
	trapped direction    // the direction that is held from then on
	muted   string       // replies that contain it are lost, and the connection goes on
	lost    int          // pieces dropped
	flying  int          // pieces on their way
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

// set changes the weather in one direction.
func (p *proxy) set(d direction, w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now[d] = w
	for _, c := range p.conns {
		if c.lossy && !w.dropped {
			c.cut()
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// holdAt holds one direction from the first request that contains the text: that request or its
// reply is the first that is held.
func (p *proxy) holdAt(text string, d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap, p.trapped = text, d
}

// mute loses replies that contain the text, and cuts no connection for that: it is for messages,
// which are not counted.
func (p *proxy) mute(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = text
}

// heal ends all faults.
func (p *proxy) heal() {
	p.holdAt("", requests)
	p.set(requests, weather{})
	p.set(replies, weather{})
}

// hangUp closes every connection on the clients' side. What the clients had sent still arrives,
// even after data on newer connections.
func (p *proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.ends[replies].Close()
	}
}

// arrived reports whether nothing is on its way.
func (p *proxy) arrived() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flying == 0
}

// cut closes every connection on both sides, as a reset of the path would.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.cut()
	}
}

// saw counts how often the text was sent to the master, whether or not it arrived.
func (p *proxy) saw(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Count(p.sent.Bytes(), []byte(text))
}

// drops returns how many pieces were lost so far.
func (p *proxy) drops() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) close() {
	close(p.closed)
	p.listener.Close()
	p.cut()
	p.running.Wait()
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
		p.mu.Unlock()
		select {
		case <-p.closed:
			c.cut()
		default:
		}
		p.running.Go(func() { p.carry(c, requests, client) })
		p.running.Go(func() { p.carry(c, replies, master) })
	}
}

// piece is what one read returned, and when it is to arrive.
type piece struct {
	bytes []byte
	due   time.Time
}

// carry forwards what comes from one end to the other, then closes the other.
func (p *proxy) carry(c *carried, d direction, from net.Conn) {
	pieces := make(chan piece, 1024)
	p.running.Go(func() {
		defer close(pieces)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- p.take(d, bytes.Clone(buffer[:n]))
			}
			if err != nil {
				return
			}
		}
	})
	to := c.ends[d]
	for piece := range pieces {
		if p.await(d, piece.due) && !p.drop(c, d, piece.bytes) {
			to.Write(piece.bytes) // on failure the rest is read, and dropped
		}
		p.land()
	}
	if half, ok := to.(*net.TCPConn); ok && d == requests {
		half.CloseWrite() // the master answers what has arrived, then closes its end
		return
	}
	to.Close()
	from.Close()
}

// take records what a client sent, and decides when it arrives.
func (p *proxy) take(d direction, text []byte) piece {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying++
	if d == requests {
		p.sent.Write(text)
		if p.trap != "" && bytes.Contains(text, []byte(p.trap)) {
			p.now[p.trapped].held = true
		}
	}
	late := p.now[d].latency
	if jitter := p.now[d].jitter; jitter > 0 {
		late += rand.N(jitter)
	}
	return piece{text, time.Now().Add(late)}
}

func (p *proxy) land() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying--
}

// await returns when a piece may arrive; false when the proxy was closed.
func (p *proxy) await(d direction, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.closed:
		return false
	}
	for {
		p.mu.Lock()
		held, changed := p.now[d].held, p.changed
		p.mu.Unlock()
		if !held {
			return true
		}
		select {
		case <-changed:
		case <-p.closed:
			return false
		}
	}
}

// drop reports whether a piece is lost.
func (p *proxy) drop(c *carried, d direction, text []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d == replies && p.muted != "" && bytes.Contains(text, []byte(p.muted)) {
		p.lost++
		return true
	}
	if p.now[d].dropped {
		c.lossy = true
		p.lost++
	}
	return p.now[d].dropped
}
