package main

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/poll"
)

var owner = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+`)

// deployment is three masters that count how many of them each owner has asked.
type deployment struct {
	mu    sync.Mutex
	asked map[string]int
	urls  []string
}

func deploy(t *testing.T) *deployment {
	d := &deployment{asked: map[string]int{}}
	for i := range 3 {
		m := fakeredis.New(time.Now, uint64(i))
		seen := map[string]bool{}
		m.Trace = func(_, script string, args []string, _ any, _ error) {
			if script != "acquire" && script != "acquires" {
				return
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, by := range owner.FindAllString(fmt.Sprint(args), -1) { // of some attempts at once
				if !seen[by] {
					seen[by] = true
					d.asked[by]++
				}
			}
		}
		at, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Stop)
		t.Cleanup(func() { at.Close() })
		go func() {
			for conn, err := at.Accept(); err == nil; conn, err = at.Accept() {
				go m.Serve(conn)
			}
		}()
		d.urls = append(d.urls, "redis://"+at.Addr().String())
	}
	return d
}

func (d *deployment) masters(owner string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[owner]
}

// A contender asks a quorum first with some of its attempts, and the other masters later.
func TestRushes(t *testing.T) {
	d := deploy(t)
	const lease = 500 * time.Millisecond
	l, err := open(contender.Plan{Kind: "library", URLs: d.urls, Lease: lease, MaxLease: lease, Timeout: lease / 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var brief []string
	// While the masters are new it waits, and probes for 100 ms after that. Of an idle machine's attempts a third asks
	// a quorum first; a busy one makes few attempts in that time.
	for i, end := 0, time.Now().Add(2*lease); i < 60 || time.Now().Before(end); i++ {
		lock, err := l.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			brief = append(brief, lock.Owner())
		} else if !poll.Until(lease, func() bool { return d.masters(lock.Owner()) == 3 }) {
			t.Errorf("%d masters were asked for a lock that is held", d.masters(lock.Owner()))
		}
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
	l.Close()
	first := 0
	for _, owner := range brief {
		if d.masters(owner) == 2 {
			first++
		}
	}
	t.Logf("%d of %d attempts asked a quorum first", first, len(brief))
	if first == 0 {
		t.Error("no attempt asked a quorum first")
	}
}
