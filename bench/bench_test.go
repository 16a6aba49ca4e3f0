package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

var (
	rounds   = flag.Int("rounds", 15, "in each round every side takes its turn; of handoffs there are a fifth as many")
	pass     = flag.Duration("pass", 1500*time.Millisecond, "length of a round of handoffs")
	held     = flag.Int("held", 10_000, "how many locks the process of one caller holds, each renewed every second")
	checking = flag.Bool("check", false, "leave out what no budget needs")
	since    = flag.Bool("since", true, "measure the library at the recorded commit, too")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(workVariable); text != "" {
		os.Exit(work(text))
	}
	goleak.VerifyTestMain(m)
}

// running is a side with the names that its pairs take in turn: one that is locked again at once would meet its last
// owner's stragglers on the slowest master.
type running struct {
	opened
	side
	urls  []string
	names []string
	turn  atomic.Int64
}

// BenchmarkLock opens the sides over 3 and over 5 masters. The masters forget everything in between: they carry the list of
// masters of their clients, and accept no client with another one.
func BenchmarkLock(b *testing.B) {
	fleet := testkit.Real(b, 5)
	fmt.Printf("servers: %s on loopback, without persistence, on the same CPUs as the callers\n", fleet.Kind)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Println("load average before:", strings.Join(strings.Fields(string(load))[:3], ", "))
	}
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			masters := fleet.Masters[:n]
			for _, m := range fleet.Masters {
				testkit.Got(m.Do("FLUSHALL"))(b)
			}
			var all, contending []*running
			for _, s := range sides {
				r := &running{side: s, urls: fleet.URLs()[:n]}
				switch {
				case s.name != etcds && s.name != postgres:
				case n != 3 || *checking:
					r.urls = nil
				case s.name == etcds:
					r.urls = startEtcd(b)
				default:
					r.urls = startPostgres(b)
				}
				if *checking && !s.checked || r.urls == nil {
					continue
				}
				var err error
				if !poll.Until(startBound, func() bool { r.opened, err = s.open(r.urls, false); return err == nil }) { // etcd elects a leader first
					b.Fatal(err)
				}
				b.Cleanup(func() { must(b, r.close()) })
				r.names = names("bench:"+s.name, 4096)
				all = append(all, r)
				if s.contends {
					contending = append(contending, r)
				}
			}
			for _, callers := range []int{1, 16, 64, 256} {
				turns(b, fmt.Sprintf("callers=%d", callers), *rounds, all, func(b *testing.B, r *running) { r.pairs(b, callers, masters) })
			}
			faulty(b, masters)
			crash(b, masters)
			if n == 3 {
				renewing(b, masters, all[0])
			}
			handoffs(b, masters, contending)
			if *since {
				sinceRecorded(b, fleet.URLs()[:n])
			}
		})
	}
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s:%d", prefix, i))
	}
	return all
}

// renewing measures one caller, alone and while its process holds other locks.
func renewing(b *testing.B, masters []*redistest.Master, one *running) {
	l := testkit.Got(redlock.Open(one.urls, quorum.WithLease(3*time.Second), quorum.WithLogger(silent),
		quorum.WithNodeOptions(node.WithoutQuarantine())))(b)
	defer l.Close()
	others, locks := names("bench:held", *held), make([]*quorum.Lock, *held)
	each := func(do func(i int) error) {
		var all errgroup.Group
		all.SetLimit(256)
		for i := range locks {
			all.Go(func() error { return do(i) })
		}
		must(b, all.Wait())
	}
	const slices = 5 // of a round; together they take most of a second
	for round := range max(1, *rounds/5) {
		measure := func(lock string) {
			for i := range slices {
				b.Run(fmt.Sprintf("renewing/lock=%s/round=%d", lock, round*slices+i+1), func(b *testing.B) { one.pairs(b, 1, masters) })
			}
		}
		measure(onePair)
		each(func(i int) (err error) { locks[i], err = l.Lock(b.Context(), others[i]); return err })
		time.Sleep(time.Second) // the renewals begin
		before := look(b, masters)
		time.Sleep(time.Second)
		used := look(b, masters)
		b.Run(fmt.Sprintf("renewal/lock=%s/round=%d", ours, round+1), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric((used.masters-before.masters)/float64(*held), "masters-ns/renewal")
		})
		measure(ours)
		each(func(i int) error {
			err := locks[i].Unlock(b.Context())
			if errors.Is(err, quorum.ErrLost) { // by a machine with other work
				b.Log(err)
				return nil
			}
			return err
		})
	}
}

// turns runs every side once a round, and each second round backwards, so that a busy machine slows all alike.
func turns(b *testing.B, what string, rounds int, all []*running, do func(*testing.B, *running)) {
	for round := range rounds {
		for i := range all {
			r := all[i]
			if round%2 == 1 {
				r = all[len(all)-1-i]
			}
			b.Run(fmt.Sprintf("%s/lock=%s/round=%d", what, r.name, round+1), func(b *testing.B) { do(b, r) })
		}
	}
}

// pairs locks and unlocks b.N uncontended names.
func (r *running) pairs(b *testing.B, callers int, masters []*redistest.Master) {
	var left atomic.Int64
	left.Store(int64(b.N))
	before := look(b, masters)
	b.ReportAllocs()
	b.ResetTimer()
	r.measure(b, callers, func() bool { return left.Add(-1) >= 0 })
	b.StopTimer()
	used := look(b, masters)
	if r.name != etcds && r.name != postgres {
		b.ReportMetric(float64(used.masters-before.masters)/float64(b.N), "masters-ns/op")
		b.ReportMetric(float64(used.bytes-before.bytes)/float64(b.N), "wire-B/op")
	}
	b.ReportMetric(float64(used.callers-before.callers)/float64(b.N), "callers-ns/op")
}

// measure locks and unlocks uncontended names while goesOn, and reports how long the pairs took and which part failed.
func (r *running) measure(b *testing.B, callers int, goesOn func() bool) {
	took, failed := make([][]time.Duration, callers), atomic.Int64{}
	var all sync.WaitGroup
	for c := range took {
		all.Go(func() {
			for goesOn() {
				began := time.Now()
				lock, err := r.lock(b.Context(), r.names[int(r.turn.Add(1))%len(r.names)])
				if err == nil {
					err = lock.Unlock(b.Context())
				}
				if err != nil && failed.Add(1) == 1 {
					b.Log(err)
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	all.Wait()
	pairs := slices.Concat(took...)
	percentiles(b, pairs)
	b.ReportMetric(float64(failed.Load())/float64(len(pairs)), "failed/op")
	testkit.Check(b, int(failed.Load()) <= len(pairs)/2,
		"%d of %d pairs failed: the others say nothing", failed.Load(), len(pairs))
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for unit, part := range map[string]float64{"p50-ns": 0.5, "p99-ns": 0.99} {
		b.ReportMetric(float64(took[int(part*float64(len(took)))]), unit)
	}
}

// usage is what this process and the masters have used so far.
type usage struct{ callers, masters, bytes float64 }

func look(b *testing.B, masters []*redistest.Master) (u usage) {
	var own unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &own))
	u.callers = float64(own.Utime.Nano() + own.Stime.Nano())
	for _, m := range masters {
		load := testkit.Got(redis.String(m.Do("INFO", "cpu")))(b)
		traffic := testkit.Got(redis.String(m.Do("INFO", "stats")))(b)
		for line := range strings.Lines(load + traffic) {
			key, text, _ := strings.Cut(strings.TrimSpace(line), ":")
			value, _ := strconv.ParseFloat(text, 64)
			switch key {
			case "used_cpu_sys", "used_cpu_user":
				u.masters += value * 1e9
			case "total_net_input_bytes", "total_net_output_bytes":
				u.bytes += value
			}
		}
	}
	return u
}

var must = testkit.Must
