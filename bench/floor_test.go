package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/scripts"
)

// bareSide hands locks over with our scripts, without the library: a master's message, the question to that master, the
// grant. It is the least that a handoff takes. Nothing ends its connections but the process.
var bareSide = side{name: bare, open: openBare}

func openBare(urls []string, _ bool) (opened, error) {
	var mu sync.Mutex
	parties := map[string]*party{}
	return opened{func(ctx context.Context, name string) (unlocker, error) {
		mu.Lock()
		p, err := parties[name], error(nil)
		if p == nil {
			p, err = newParty(urls, name, uint64(len(parties)+1))
			parties[name] = p
		}
		mu.Unlock()
		if err != nil {
			return nil, err
		}
		return unlock(p.unlock), p.lock(ctx)
	}, func() error { return nil }}, nil
}

// party is one of two that want a lock. It keeps the votes that it has until it holds the lock: of two, one always has a
// majority.
type party struct{ votes []*vote }

// vote is one master's.
type vote struct {
	asks, listens    redis.Conn
	expected         string // the first line of the master's marker
	acquire, release scripts.Call

	mu      sync.Mutex
	granted chan<- error // nil while nobody wants the lock
	has     bool
}

func newParty(urls []string, name string, number uint64) (*party, error) {
	p := new(party)
	owner, names := scripts.NewOwner(fmt.Sprint("floor:", os.Getpid()), number), []scripts.Name{scripts.NewName(name)}
	for _, url := range urls {
		asks, err := redis.DialURL(url)
		if err != nil {
			return nil, err
		}
		listens, err := redis.DialURL(url)
		if err != nil {
			return nil, err
		}
		marker, err := redis.String(asks.Do("GET", scripts.MarkerKey))
		if err != nil {
			return nil, err
		}
		line, _, _ := strings.Cut(marker, "\n")
		if _, err := listens.Do("SUBSCRIBE", scripts.Channel(name)); err != nil {
			return nil, err
		}
		v := &vote{asks: asks, listens: listens, expected: line, release: scripts.Release(names, owner, 0),
			acquire: scripts.Acquire(scripts.AcquireArgs{Names: names, Owner: owner, Depth: 1,
				Lease: scripts.ToMillis(quorum.DefaultLease), Seed: uint64(time.Now().UnixMicro())})}
		p.votes = append(p.votes, v)
		go v.listen()
	}
	return p, nil
}

func (v *vote) do(call scripts.Call) (scripts.Reply, error) {
	name, args := call.Command(nil, false, scripts.ConnArgs{Expected: v.expected, Tombstone: scripts.NoTombstone})
	reply, err := v.asks.Do(name, args...)
	if err != nil {
		return scripts.Reply{}, err
	}
	return call.Parse(reply)
}

// ask is called with v.mu locked.
func (v *vote) ask() {
	if v.granted == nil || v.has {
		return
	}
	result, err := v.do(v.acquire)
	v.has = err == nil && result.Acquire.Outcome == scripts.Granted
	if err != nil || v.has {
		v.granted <- err
	}
}

func (v *vote) listen() {
	for {
		_, err := v.listens.Receive()
		v.mu.Lock()
		if err != nil {
			if v.granted != nil {
				v.granted <- err
			}
			v.mu.Unlock()
			return
		}
		v.ask()
		v.mu.Unlock()
	}
}

func (p *party) lock(ctx context.Context) error {
	granted := make(chan error, 2*len(p.votes))
	for _, v := range p.votes {
		go func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.granted = granted
			v.ask()
		}()
	}
	for range len(p.votes)/2 + 1 {
		select {
		case err := <-granted:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.Join(ctx.Err(), p.unlock(ctx))
		}
	}
	return nil
}

func (p *party) unlock(context.Context) error {
	all := make(chan error)
	for _, v := range p.votes {
		go func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.granted = nil
			var err error
			if v.has {
				_, err = v.do(v.release)
			}
			v.has = false
			all <- err
		}()
	}
	var err error
	for range p.votes {
		err = errors.Join(err, <-all)
	}
	return err
}
