package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// network is what lies between callers and masters.
type network struct {
	testing.TB
	links []*forward.Forward // one to each master
	last  *redistest.Master  // the master that faults hit
}

// distance is how much longer a request takes than on loopback, unless a fault says otherwise.
const distance = time.Millisecond

// delay divides the masters into as many groups as there are distances, and puts each group that far away.
func (n network) delay(distances ...time.Duration) {
	for i, link := range n.links {
		link.DelayRequests(distances[i*len(distances)/len(n.links)], 0)
	}
}

// faults are what callers meet, one after the other.
var faults = []struct {
	name    string
	callers int
	begin   func(n network) (end func())
}{
	{"away", 1, func(network) func() { return func() {} }}, // no fault: what the others are compared with
	{"slow", 1, func(n network) func() {
		link := n.links[len(n.links)-1]
		link.DelayRequests(distance+20*time.Millisecond, 0)
		return func() { link.DelayRequests(distance, 0) }
	}},
	{"jitter", 1, func(n network) func() {
		for _, link := range n.links {
			link.DelaySome(0.01, 20*time.Millisecond)
		}
		return func() {
			for _, link := range n.links {
				link.DelaySome(0, 0)
			}
		}
	}},
	{"frozen", 1, func(n network) func() {
		must(n, n.last.Freeze())
		return func() { must(n, n.last.Thaw()) }
	}},
	{"dead", 1, func(n network) func() {
		must(n, n.last.Kill())
		return func() { must(n, n.last.Start()) }
	}},
	{"restarting", 1, func(n network) func() {
		var restarts sync.WaitGroup
		ended := make(chan struct{})
		restarts.Go(func() {
			for {
				testkit.Check(n, n.last.Kill() == nil && n.last.Start() == nil, "the master does not restart")
				select {
				case <-ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
		return func() { close(ended); restarts.Wait() }
	}},
	{"regions", 1, regions},
	{"regions-5", 5, regions},
}

// regions puts the masters into three regions.
func regions(n network) func() {
	n.delay(0, 10*time.Millisecond, 30*time.Millisecond)
	return func() { n.delay(distance) }
}

// relayed returns a relay to each master, and the URLs of their database by way of the relays.
func relayed(b *testing.B, masters []*redistest.Master, database string) (links []*forward.Forward, urls []string) {
	for _, m := range masters {
		f := testkit.Got(forward.New(m.Addr()))(b)
		b.Cleanup(f.Close)
		links, urls = append(links, f), append(urls, "redis://"+f.Addr()+database+"?name="+m.Addr())
	}
	return links, urls
}

// faulty measures callers that are a distance away from the masters, without a fault and with each. A round has all of
// them.
func faulty(b *testing.B, masters []*redistest.Master) {
	links, urls := relayed(b, masters, "")
	n := network{b, links, masters[len(masters)-1]}
	n.delay(distance)
	locker := testkit.Opened(redlock.Open(urls, quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(silent)))(b)
	all := []*running{{side: side{name: ours}, opened: lockerOpened(locker)}}
	for name, patient := range map[string]bool{redsyncs: false, redsyncDefaults: true} {
		o := testkit.Got(openRedsync(urls, patient))(b)
		defer o.close()
		all = append(all, &running{side: side{name: name}, opened: o})
	}
	for _, r := range all {
		r.names = names("bench:faulty:"+r.name, 4096)
	}
	for round := range max(1, *rounds/3) {
		for _, f := range faults {
			end := f.begin(n)
			for _, r := range all {
				b.Run(fmt.Sprintf("%s/lock=%s/round=%d", f.name, r.name, round+1), func(b *testing.B) {
					until := time.Now().Add(*pass / 3)
					r.measure(b, f.callers, func() bool { return time.Now().Before(until) })
					b.ReportMetric(0, "ns/op") // it is the length of a round
				})
			}
			end()
			testkit.Check(b, poll.Until(startBound, func() bool {
				lock, err := locker.TryLock(b.Context(), "bench:faulty:back") // a blank master is marked when it is asked
				if err == nil {
					err = lock.Unlock(b.Context())
				}
				return err == nil && locker.Stats().Voters == len(masters)
			}), "after %q a master stays away", f.name)
		}
	}
}

// crash measures for how long a lock lies idle after the lease of a holder that crashed, while another process waits.
func crash(b *testing.B, masters []*redistest.Master) {
	const lease = time.Second
	links, cut := relayed(b, masters, "/3")
	var urls []string
	for _, m := range masters {
		urls = append(urls, m.URL()+"/3?name="+m.Addr())
	}
	options := []quorum.Option{quorum.WithLease(lease), quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(silent)}
	holder := testkit.Opened(redlock.Open(cut, options...))(b)
	waiter := testkit.Opened(redlock.Open(urls, options...))(b)
	sync, closeAll := redsyncOver(urls)
	defer closeAll()
	for round := range max(1, *rounds/5) {
		name := fmt.Sprint("bench:crash:", round)
		idle := func(lock string, hold, wait func() error) {
			b.Run(fmt.Sprintf("crash/lock=%s/round=%d", lock, round+1), func(b *testing.B) {
				must(b, hold())
				began := time.Now()
				must(b, wait())
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(time.Since(began)-lease), "idle-ns")
			})
		}
		idle(ours, func() error {
			_, err := holder.Lock(b.Context(), name)
			for _, link := range links {
				link.Lose()
			}
			return err
		}, func() error {
			lock, err := waiter.Lock(b.Context(), name)
			if err != nil {
				return err
			}
			return lock.Unlock(b.Context())
		})
		for _, link := range links {
			link.Heal()
		}
		theirs := func() error {
			return sync.NewMutex("redsync:"+name, redsync.WithExpiry(lease)).LockContext(b.Context())
		}
		idle(redsyncs, theirs, theirs)
	}
}
