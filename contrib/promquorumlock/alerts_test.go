package promquorumlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorumlock/quorumlock/contrib/promquorumlock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	notUp        = "QuorumlockMasterNotUp"
	noSpare      = "QuorumlockNoSpareMaster"
	lost         = "QuorumlockLockLost"
	noneAcquired = "QuorumlockNoLockAcquired"
	tooShort     = "QuorumlockValidityShort"
)

// bound is for the whole run, which takes 40 s on an idle machine.
const bound = 100 * time.Second

// run is a process that locks on real masters, and the Prometheus that scrapes it.
type run struct {
	t          *testing.T
	began      time.Time
	masters    []*redistest.Master
	app, other *quorum.Locker // other is not measured
	prometheus *server
	panels     map[string]bool // by query of the dashboard: whether it has returned series
}

// Each alert fires under its fault and under no other, and each query of the dashboard returns series
// in the course of it.
func TestAlertsAndDashboardOnPrometheus(t *testing.T) {
	needs(t, "prometheus")
	r := startRun(t)
	stop := r.work("job:1") // a job that a timer runs
	held, err := r.app.Lock(ctx, "leader:x")
	must(t, err)

	began := time.Now()
	r.await("a time without faults", func() bool {
		return time.Since(began) > 8*time.Second && len(r.prometheus.query(t, `quorumlock_lock_validity_bucket`)) > 0
	})
	r.onlyFired(began)

	t.Log("a master is killed")
	began = time.Now()
	must(t, r.masters[2].Kill())
	r.await("alerts of a killed master", r.fires(notUp, noSpare))
	r.onlyFired(began, notUp, noSpare)
	must(t, r.masters[2].Start())
	r.await("no alert", r.fires())

	t.Log("a lock is lost")
	began = time.Now()
	short, err := r.app.With(quorum.WithFixedLease(100*time.Millisecond)).Lock(ctx, "batch:7")
	must(t, err)
	<-short.Context().Done()
	r.await("alert of the loss", r.fires(lost))
	r.onlyFired(began, lost)
	r.await("no alert", r.fires())

	t.Log("calls wait, and none acquires a lock")
	began = time.Now()
	stop()
	foreign, err := r.other.Lock(ctx, "job:2")
	must(t, err)
	stop = r.work("job:2")
	r.await("alert of calls that acquire no lock", r.fires(noneAcquired))
	r.onlyFired(began, noneAcquired)
	must(t, foreign.Unlock(ctx))
	r.await("no alert", r.fires())

	t.Log("renewals are not confirmed")
	fresh, err := r.app.Lock(ctx, "leader:y") // a busy machine may have lost the other
	must(t, err)
	for _, m := range r.masters[:2] {
		must(t, m.Freeze())
	}
	r.await("alert of validity", func() bool { return r.prometheus.firing(t)[tooShort] })
	for _, m := range r.masters[:2] {
		must(t, m.Thaw())
	}
	stop()
	held.Unlock(ctx)
	fresh.Unlock(ctx)
	for query, seen := range r.panels {
		if !seen {
			t.Errorf("the dashboard's query returned no series: %s", query)
		}
	}
	if len(r.panels) < 10 {
		t.Errorf("the dashboard has %d queries", len(r.panels))
	}
}

func startRun(t *testing.T) *run {
	t.Helper()
	fleet, err := redistest.StartReal(3)
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("needs real servers: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, fleet.Stop()) })
	m := promquorumlock.New(promquorumlock.WithGroup(func(name string) string {
		kind, _, _ := strings.Cut(name, ":")
		return kind
	}))
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(m))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	web := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	go web.Serve(listener)
	t.Cleanup(func() { web.Close() })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	var urls []string
	for _, one := range fleet.Masters {
		urls = append(urls, one.URL())
	}
	r := &run{t: t, began: time.Now(), masters: fleet.Masters, panels: dashboard(t)}
	options := func(more ...node.Option) quorum.Option {
		return quorum.WithNodeOptions(append(more, node.WithoutQuarantine(), node.WithTimeout(1500*time.Millisecond))...)
	}
	open := func(opts ...quorum.Option) *quorum.Locker {
		l, err := redlock.Open(urls, append(opts, quorum.WithLease(6*time.Second))...)
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		return l
	}
	r.app = open(quorum.WithHooks(m.Hooks()), options(node.WithHooks(m.NodeHooks())))
	r.other = open(options())
	m.Observe("app", r.app)
	r.prometheus = startPrometheus(t, listener.Addr().String())
	return r
}

// work locks and unlocks a name again and again, until stop is called.
func (r *run) work(name string) (stop func()) {
	work, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for work.Err() == nil {
			if lock, err := r.app.Lock(work, name); err == nil {
				lock.Unlock(ctx)
			}
			select {
			case <-work.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	r.t.Cleanup(cancel)
	return func() { cancel(); <-ended }
}

// fires returns the condition that all of these alerts fire; of none, that none does.
func (r *run) fires(names ...string) func() bool {
	quiet := 0 // a scrape that fails ends an alert for a moment
	return func() bool {
		firing := r.prometheus.firing(r.t)
		for _, name := range names {
			if !firing[name] {
				return false
			}
		}
		if quiet++; len(firing) > 0 {
			quiet = 0
		}
		return len(names) > 0 || quiet == 10
	}
}

// onlyFired fails the test if another alert than these has fired since then.
func (r *run) onlyFired(since time.Time, names ...string) {
	r.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(r.prometheus.fired(r.t, since))) {
		if !slices.Contains(names, name) {
			r.t.Errorf("%s fired; only these should: %v", name, names)
		}
	}
}

// await polls until the condition holds, and tries the dashboard's queries meanwhile.
func (r *run) await(what string, holds func() bool) {
	r.t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(r.began) > bound {
			r.t.Fatalf("not within %v of the start: %s; firing: %v; scraped: %v; Stats: %+v", bound, what,
				r.prometheus.firing(r.t), r.prometheus.query(r.t, "up"), r.app.Stats())
		}
		for query, seen := range r.panels {
			if !seen && len(r.prometheus.query(r.t, query)) > 0 {
				r.panels[query] = true
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Logf("after %v: %s", time.Since(began).Round(100*time.Millisecond), what)
}

// dashboard returns the queries of the dashboard, with the variables filled in.
func dashboard(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana", "quorumlock.json"))
	must(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, json.Unmarshal(text, &board))
	if len(board.Panels) != 10 {
		t.Fatalf("the dashboard has %d panels", len(board.Panels))
	}
	queries, fill := map[string]bool{}, strings.NewReplacer("$__rate_interval", "6s", "$job", "app")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries[fill.Replace(target.Expr)] = false
		}
	}
	return queries
}

// promtool plays each rule with and without its fault, with the durations that the file has.
func TestAlertRules(t *testing.T) {
	promtool := needs(t, "promtool")
	out, err := exec.Command(promtool, "test", "rules", "testdata/alerts_test.yml").CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
