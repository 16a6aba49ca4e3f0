package node_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// markerRun returns the run that a database's marker names.
func markerRun(t *testing.T, m *redistest.Master, number int) string {
	t.Helper()
	c := testkit.Opened(redis.Dial("tcp", m.Addr(), redis.DialDatabase(number)))(t)
	text := testkit.Got(redis.String(c.Do("GET", scripts.MarkerKey)))(t)
	marker := testkit.Got(scripts.ParseMarker(text))(t)
	return marker.Run
}

func TestTheMarkerNamesItsDatabase(t *testing.T) {
	m := startReal(t)
	run := testkit.Info(t, m, "server", "run_id")
	for number, want := range map[int]string{0: run, 2: run + "/2", 7: run + "/7"} {
		url := m.URL()
		if number > 0 {
			url += "/" + want[len(run)+1:]
		}
		n := openQuarantined(t, url, time.Hour)
		testkit.Must(t, operator.Admit(t.Context(), n))
		testkit.Equal(t, markerRun(t, m, number), want, "what Admit's marker says")
		warns(t, check(t, n), "no client has marked it")
		r := do(t, n, acquireFor(time.Hour, "k", "o:1"))
		mustGrant(t, r)
		testkit.Equal(t, markerRun(t, m, number), want, "what the marker says after a grant")
		testkit.Equal(t, r.RunID, run, "the process that granted")
	}
}

func TestCheckAfterSWAPDB(t *testing.T) {
	m := startReal(t)
	var both []*node.Node
	for _, url := range []string{m.URL() + "/1", m.URL() + "/2"} {
		n := openQuarantined(t, url, time.Hour)
		testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
		warns(t, check(t, n))
		both = append(both, n)
	}
	testkit.Do(t, m, "SWAPDB", 1, 2)
	for _, n := range both {
		report := check(t, n)
		warns(t, report, "another database's (SWAPDB)")
		testkit.Equal(t, report.Quarantine, time.Hour, "quarantine")
		quarantined(t, do(t, n, acquireFor(time.Hour, "k", "o:1")), time.Hour)
	}
}

// startDatabase starts an admitted master with these replies to CLIENT and SELECT.
func startDatabase(t *testing.T, client, selected string) *fakeServer {
	answer := admittedMaster(":1\r\n")
	return startFake(t, func(args []string) string {
		switch args[0] {
		case "CLIENT":
			return client
		case "SELECT":
			return selected
		}
		return answer(args)
	})
}

// The URL's database counts if the server names none.
func TestDatabaseOfAServerThatDoesNotNameIt(t *testing.T) {
	run := strings.Repeat("0", 40)
	for what, c := range map[string]struct{ path, clientInfo, want string }{
		"it does not know CLIENT INFO":        {"/3", "-ERR Unknown subcommand\r\n", run + "/3"},
		"it may not be asked":                 {"/3", "-NOPERM no\r\n", run + "/3"},
		"nothing of the database":             {"/3", bulk("id=1 name=x\n"), run + "/3"},
		"no number":                           {"/3", bulk("id=1 db=x\n"), run + "/3"},
		"a negative number":                   {"/3", bulk("id=1 db=-1\n"), run + "/3"},
		"it names it":                         {"/3", bulk("id=1 name=db=4 db=3 sub=0\n"), run + "/3"},
		"it names 0":                          {"", bulk("id=1 db=0\n"), run},
		"neither the server nor the URL does": {"", "-ERR Unknown subcommand\r\n", run},
	} {
		t.Run(what, func(t *testing.T) {
			f := startDatabase(t, c.clientInfo, "+OK\r\n")
			n := open(t, f.url()+c.path)
			testkit.Must(t, operator.Admit(t.Context(), n))
			mustGrant(t, do(t, n, acquire("k", "o:1")))
			scripts := 0
			for _, args := range f.all() {
				testkit.Check(t, args[0] != "PING" || c.clientInfo[0] == '-', "asked why it hangs up")
				if strings.HasPrefix(args[0], "EVAL") {
					scripts++
					got := strings.TrimPrefix(args[len(args)-1], "0 ") // of an acquire, the marker's first line
					testkit.Check(t, strings.HasPrefix(got, c.want+" 30000 "), "%q: want %q for the marker", args, c.want)
				}
			}
			testkit.Equal(t, scripts, 4, "scripts") // two for Admit, one for the connection, one for the grant
		})
	}
}

// inDatabase is a pool whose connections use one database after the other.
func inDatabase(t *testing.T, address string, numbers ...int) *redis.Pool {
	var dials atomic.Int64
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		number := numbers[min(int(dials.Add(1)), len(numbers))-1]
		return redis.Dial("tcp", address, redis.DialDatabase(number))
	}}
	t.Cleanup(func() { testkit.Must(t, pool.Close()) })
	return pool
}

// A database is part of a master's name, so a connection to another one is another master's.
func TestAConnectionToAnotherDatabase(t *testing.T) {
	redistest.Need(t, redistest.ClientInfo)
	m := startReal(t)
	refused := func(t *testing.T, n *node.Node, err error) {
		t.Helper()
		mustFail(t, n, err, node.ErrMembership)
		isPermanent(t, err)
	}
	for what, c := range map[string]struct {
		database int
		name     string
	}{"one without a number": {1, "a"}, "one with a number": {0, "a/1"}, "another number": {1, "a/2"}} {
		t.Run(what, func(t *testing.T) {
			n := openPool(t, inDatabase(t, m.Addr(), c.database), node.WithName(c.name))
			refused(t, n, do(t, n, scripts.Look()).Err)
			_, err := operator.Check(t.Context(), n)
			refused(t, n, err)
			refused(t, n, operator.Admit(t.Context(), n))
		})
	}
	t.Run("its own", func(t *testing.T) {
		n := openPool(t, inDatabase(t, m.Addr(), 1), node.WithName("a/1"))
		testkit.Must(t, do(t, n, scripts.Look()).Err)
		testkit.Must(t, operator.Admit(t.Context(), n))
		testkit.Equal(t, n.Name(), "a/1", "named")
	})
	t.Run("a pool without a name that changes it", func(t *testing.T) {
		n := openPool(t, inDatabase(t, m.Addr(), 1, 0), node.WithName(""))
		testkit.Must(t, do(t, n, scripts.Look()).Err)
		testkit.Equal(t, n.Name(), m.Addr()+"/1", "named")
		_, err := operator.Check(t.Context(), n)
		refused(t, n, err)
	})
}

// A pool's database is selected if the server does not name it.
func TestAPoolsDatabaseIsSelected(t *testing.T) {
	for what, c := range map[string]struct{ name, selected, reply string }{
		"0":                      {"a", "0", "+OK\r\n"},
		"1":                      {"a/1", "1", "+OK\r\n"},
		"SELECT is not allowed":  {"a", "0", "-NOPERM no permissions\r\n"},
		"the server has no such": {"a/1", "1", "-ERR DB index is out of range\r\n"},
	} {
		t.Run(what, func(t *testing.T) {
			f := startDatabase(t, "-NOPERM no permissions\r\n", c.reply)
			n := openPool(t, poolOf(f.addr), node.WithName(c.name))
			_, err := operator.Check(t.Context(), n)
			isSelected := func(args []string) bool { return slices.Equal(args, []string{"SELECT", c.selected}) }
			testkit.Check(t, slices.ContainsFunc(f.all(), isSelected), "%s is not selected: %q", c.selected, f.all())
			if strings.HasPrefix(c.reply, "+") {
				testkit.Must(t, err)
				return
			}
			isPermanent(t, err)
		})
	}
}

// Over a pool without a name, a server that does not tell its address and database is refused: its pool may be for another
// database than 0, which would be selected. That says nothing of one that hangs up.
func TestAPoolsServerThatDoesNotTellItsAddress(t *testing.T) {
	for client, isPermanent := range map[string]bool{"-NOPERM no\r\n": true, bulk("id=1 db=0\n"): true, bulk("id=1 laddr=h:1\n"): true, canned.HangUp: false} {
		f := startDatabase(t, client, "+OK\r\n")
		n := openPool(t, poolOf(f.addr), node.WithName(""))
		err := do(t, n, scripts.Look()).Err
		mustFail(t, n, err, node.ErrDown)
		testkit.Equal(t, isTransient(err), !isPermanent, err)
	}
}

// A connection whose database was selected does not go back to the pool: the program that owns it would use that
// database.
func TestASelectedConnectionDoesNotGoBackToThePool(t *testing.T) {
	redistest.Need(t, redistest.ClientInfo)
	m := startReal(t)
	testkit.Do(t, m, redistest.SetUser("app", "on", ">right", "~*", "&*", "+@all", "-client|info")...)
	for _, maxActive := range []int{0, 20} {
		pool := &redis.Pool{MaxIdle: 3, MaxActive: maxActive, Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", m.Addr(), redis.DialUsername("app"), redis.DialPassword("right"))
		}}
		t.Cleanup(func() { testkit.Must(t, pool.Close()) })
		n := openPool(t, pool, node.WithName("a/1"))
		testkit.Must(t, do(t, n, scripts.Look()).Err)
		check(t, n)
		testkit.Must(t, n.Close())
		c := pool.Get()
		defer c.Close()
		testkit.Got(c.Do("SET", "k", maxActive))(t)
		testkit.Equal(t, fmt.Sprintf("%s", testkit.Do(t, m, "GET", "k")), fmt.Sprint(maxActive), "what the pool's next connection has set in database 0")
	}
}
