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

// way is the network between callers and masters, and the last of these.
type way struct {
	testing.TB
	links []*forward.Forward
	last  *redistest.Master
}

// distance is how much longer a request takes.
const distance = time.Millisecond

func (w way) delay(ms ...int) {
	for i, link := range w.links {
		link.DelayRequests(time.Duration(ms[i*len(ms)/len(w.links)])*distance, 0)
	}
}

// faults are what callers meet. Each returns what ends it.
var faults = []struct {
	name    string
	callers int
	begin   func(w way) (end func())
}{
	{"away", 1, func(way) func() { return func() {} }},
	{"slow", 1, func(w way) func() {
		link := w.links[len(w.links)-1]
		link.DelayRequests(21*distance, 0)
		return func() { link.DelayRequests(distance, 0) }
	}},
	{"jitter", 1, func(w way) func() {
		for _, link := range w.links {
			link.DelaySome(0.01, 20*time.Millisecond)
		}
		return func() {
			for _, link := range w.links {
				link.DelaySome(0, 0)
			}
		}
	}},
	{"frozen", 1, func(w way) func() {
		must(w, w.last.Freeze())
		return func() { must(w, w.last.Thaw()) }
	}},
	{"dead", 1, func(w way) func() {
		must(w, w.last.Kill())
		return func() { must(w, w.last.Start()) }
	}},
	{"restarting", 1, func(w way) func() {
		var restarts sync.WaitGroup
		ended := make(chan struct{})
		restarts.Go(func() {
			for {
				testkit.Check(w, w.last.Kill() == nil && w.last.Start() == nil, "the master does not restart")
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

// regions puts the masters into three.
func regions(w way) func() {
	w.delay(0, 10, 30)
	return func() { w.delay(1) }
}

// faulty measures callers 1 ms away from the masters, without faults and with each. A round has all of them.
func faulty(b *testing.B, masters []*redistest.Master) {
	w := way{TB: b, last: masters[len(masters)-1]}
	var urls []string
	for _, m := range masters {
		f, err := forward.New(m.Addr())
		must(b, err)
		b.Cleanup(f.Close)
		w.links, urls = append(w.links, f), append(urls, "redis://"+f.Addr()+"?name="+m.Addr())
	}
	w.delay(1)
	locker, err := redlock.Open(urls, quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(silent))
	must(b, err)
	defer locker.Close()
	all := []*running{{side: side{name: ours}, opened: lockerOpened(locker)}}
	for name, patient := range map[string]bool{redsyncs: false, redsyncDefaults: true} {
		o, err := openRedsync(urls, patient)
		must(b, err)
		defer o.close()
		all = append(all, &running{side: side{name: name}, opened: o})
	}
	for _, r := range all {
		r.names = names("bench:faulty:"+r.name, 4096)
	}
	for round := range max(1, *rounds/3) {
		for _, f := range faults {
			end := f.begin(w)
			for _, r := range all {
				b.Run(fmt.Sprintf("%s/lock=%s/round=%d", f.name, r.name, round+1), func(b *testing.B) {
					until := time.Now().Add(*pass / 3)
					r.measure(b, f.callers, func() bool { return time.Now().Before(until) })
					b.ReportMetric(0, "ns/op") // it is the length of a round
				})
			}
			end()
			testkit.Check(b, poll.Until(startBound, func() bool { return locker.Stats().Voters == len(masters) }),
				"after %q a master stays away", f.name)
		}
	}
}

// crash measures for how long a lock lies idle after the lease of a holder that crashed, while another process waits.
func crash(b *testing.B, masters []*redistest.Master) {
	const lease = time.Second
	var urls, cut []string
	var links []*forward.Forward
	for _, m := range masters {
		f, err := forward.New(m.Addr())
		must(b, err)
		b.Cleanup(f.Close)
		links, urls, cut = append(links, f), append(urls, m.URL()+"/3?name="+m.Addr()), append(cut, "redis://"+f.Addr()+"/3?name="+m.Addr())
	}
	options := []quorum.Option{quorum.WithLease(lease), quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(silent)}
	holder, err := redlock.Open(cut, options...)
	must(b, err)
	defer holder.Close()
	waiter, err := redlock.Open(urls, options...)
	must(b, err)
	defer waiter.Close()
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
