package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// markerRun returns the run that a database's marker names.
func markerRun(t *testing.T, m *redistest.Master, number int) string {
	t.Helper()
	c, err := redis.Dial("tcp", m.Addr(), redis.DialDatabase(number))
	must(t, err)
	defer c.Close()
	text, err := redis.String(c.Do("GET", scripts.MarkerKey))
	must(t, err)
	marker, err := scripts.ParseMarker(text)
	must(t, err)
	return marker.Run
}

func TestTheMarkerNamesItsDatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, m *redistest.Master) {
		run := stat(t, m, "server", "run_id")
		for number, want := range map[int]string{0: run, 2: run + "/2", 7: run + "/7"} {
			url := m.URL()
			if number > 0 {
				url += "/" + want[len(run)+1:]
			}
			n := openQuarantined(t, url, time.Hour)
			must(t, n.Admit(t.Context()))
			if got := markerRun(t, m, number); got != want {
				t.Errorf("Admit: the marker of database %d says %q, want %q", number, got, want)
			}
			warns(t, check(t, n), "no client has marked it")
			r := do(t, n, acquireFor(time.Hour, "k", "o:1"))
			mustGrant(t, r)
			if got := markerRun(t, m, number); got != want || r.RunID != run {
				t.Errorf("a grant: the marker of database %d says %q, want %q; process %q", number, got, want, r.RunID)
			}
		}
	})
}

func TestCheckAfterSWAPDB(t *testing.T) {
	m := startReal(t)
	var both []*node.Node
	for _, url := range []string{m.URL() + "/1", m.URL() + "/2"} {
		n := openQuarantined(t, url, time.Hour)
		must(t, n.Admit(t.Context()))
		mark(t, n)
		warns(t, check(t, n))
		both = append(both, n)
	}
	mustDo(t, m, "SWAPDB", 1, 2)
	for _, n := range both {
		report := check(t, n)
		warns(t, report, "another database's (SWAPDB)")
		if report.Quarantine != time.Hour {
			t.Errorf("quarantine of %v", report.Quarantine)
		}
		quarantined(t, n, time.Hour, "k", "o:1")
	}
}

// The database that CLIENT INFO names takes precedence over the URL's, which counts if the
// server names none.
func TestDatabaseOfAServerThatDoesNotNameIt(t *testing.T) {
	run := strings.Repeat("0", 40)
	for what, c := range map[string]struct{ path, clientInfo, want string }{
		"it does not know CLIENT INFO":        {"/3", "-ERR Unknown subcommand\r\n", run + "/3"},
		"it may not be asked":                 {"/3", "-NOPERM no\r\n", run + "/3"},
		"nothing of the database":             {"/3", bulk("id=1 name=x\n"), run + "/3"},
		"no number":                           {"/3", bulk("id=1 db=x\n"), run + "/3"},
		"a negative number":                   {"/3", bulk("id=1 db=-1\n"), run + "/3"},
		"it names one":                        {"/3", bulk("id=1 name=db=4 db=5 sub=0\n"), run + "/5"},
		"it names 0":                          {"/3", bulk("id=1 db=0\n"), run},
		"neither the server nor the URL does": {"", "-ERR Unknown subcommand\r\n", run},
	} {
		t.Run(what, func(t *testing.T) {
			f := startFake(t, func(args []string) string {
				if args[0] == "CLIENT" {
					return c.clientInfo
				}
				if args[0] == "SELECT" {
					return "+OK\r\n"
				}
				return admittedMaster(func([]string) string { return ":7\r\n" })(args)
			})
			n := open(t, f.url()+c.path)
			must(t, n.Admit(t.Context()))
			mustGrant(t, do(t, n, acquire("k", "o:1")))
			f.mu.Lock()
			defer f.mu.Unlock()
			scripts := 0
			for _, args := range f.received {
				if strings.HasPrefix(args[0], "EVAL") {
					scripts++
					got := strings.TrimPrefix(args[len(args)-1], "0 ") // of an acquire, the marker's first line
					if !strings.HasPrefix(got, c.want+" 30000 ") {
						t.Errorf("%q: want %q for the marker", args, c.want)
					}
				}
			}
			if scripts != 4 { // two for Admit, one for the connection, one for the grant
				t.Errorf("%d scripts", scripts)
			}
		})
	}
}
