package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// party is one of two that hand a lock to each other with our scripts, without the library. On a master's message it asks
// that master. It holds the lock when a majority has granted it.
type party struct {
	number        uint64
	asks, listens []redis.Conn
	expected      []any // of each master: the first line of its marker
	granted       chan error
}

func newParty(b *testing.B, number uint64, masters []*redistest.Master, channel string) *party {
	p := &party{number: number, granted: make(chan error, len(masters))}
	dial := func(m *redistest.Master) redis.Conn {
		conn, err := redis.Dial("tcp", m.Addr())
		must(b, err)
		b.Cleanup(func() { conn.Close() })
		return conn
	}
	for _, m := range masters {
		p.asks, p.listens = append(p.asks, dial(m)), append(p.listens, dial(m))
		marker, err := redis.String(m.Do("GET", scripts.MarkerKey))
		must(b, err)
		line, _, _ := strings.Cut(marker, "\n")
		p.expected = append(p.expected, line)
		_, err = p.listens[len(p.listens)-1].Do("SUBSCRIBE", channel)
		must(b, err)
	}
	return p
}

func (p *party) send(i int, call scripts.Call) error {
	name, args := call.Command(nil, false, scripts.ConnArgs{Expected: p.expected[i], Tombstone: scripts.NoTombstone})
	if err := p.asks[i].Send(name, args...); err != nil {
		return err
	}
	return p.asks[i].Flush()
}

// lock asks each master, with onMessage only once its message has come. It returns when a majority has granted; the
// answers of the others are left in p.granted.
func (p *party) lock(name scripts.Name, onMessage bool) error {
	call := scripts.Acquire(scripts.AcquireArgs{Names: []scripts.Name{name}, Owner: scripts.NewOwner("floor", p.number), Depth: 1,
		Lease: scripts.ToMillis(quorum.DefaultLease), Seed: uint64(time.Now().UnixMicro())})
	for i := range p.asks {
		go func() {
			p.granted <- func() error {
				if onMessage {
					if _, err := p.listens[i].Receive(); err != nil {
						return err
					}
				}
				if err := p.send(i, call); err != nil {
					return err
				}
				reply, err := p.asks[i].Receive()
				if err != nil {
					return err
				}
				parsed, err := call.Parse(reply)
				if err == nil && parsed.Acquire.Outcome != scripts.Granted {
					return fmt.Errorf("the floor was refused: %v", parsed.Acquire.Outcome)
				}
				return err
			}()
		}()
	}
	return p.wait(len(p.asks)/2 + 1)
}

// wait takes n answers from p.granted.
func (p *party) wait(n int) error {
	for range n {
		if err := <-p.granted; err != nil {
			return err
		}
	}
	return nil
}

// floorOfHandoffs measures the least that a handoff takes: message, question, grant.
func floorOfHandoffs(b *testing.B, masters []*redistest.Master) {
	const text = "bench:floor"
	name := scripts.NewName(text)
	a, other := newParty(b, 1, masters, scripts.Channel(text)), newParty(b, 2, masters, scripts.Channel(text))
	must(b, a.lock(name, false))
	must(b, a.wait(len(masters)/2))
	for round := range max(1, *rounds/5) {
		b.Run(fmt.Sprintf("handoff/lock=%s/round=%d", bare, round+1), func(b *testing.B) {
			var idle []time.Duration
			for until := time.Now().Add(*pass / 5); time.Now().Before(until); a, other = other, a {
				locked := make(chan error)
				go func() { locked <- other.lock(name, true) }()
				time.Sleep(time.Millisecond) // the other waits for messages
				began := time.Now()
				for i := range masters {
					must(b, a.send(i, scripts.Release([]scripts.Name{name}, scripts.NewOwner("floor", a.number), 0)))
				}
				must(b, <-locked)
				idle = append(idle, time.Since(began))
				must(b, other.wait(len(masters)/2))
				for i := range masters { // the reply to the release, and its message, which this party hears, too
					_, err := a.asks[i].Receive()
					must(b, err)
					_, err = a.listens[i].Receive()
					must(b, err)
				}
			}
			b.ReportMetric(0, "ns/op")
			percentiles(b, idle)
		})
	}
}
