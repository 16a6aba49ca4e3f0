package node

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// watched is the network of sentinels and masters: servers by their addresses. At others nothing listens.
type watched struct {
	mu      sync.Mutex
	servers map[string]func(args []string) string
	secured func(net.Conn) net.Conn // the servers' ends; nil without TLS
	open    atomic.Int32
	dialled []string
	hangs   string // the address of which a dial does not end, like nowhere:1
	lookup  bool   // it is its host's name that is not found
}

// silent serves connections, and never answers. A dial of nowhere does not end.
func silent([]string) string  { return canned.Silent }
func nowhere([]string) string { panic("not dialled") }
func gone([]string) string    { panic("not dialled") }

func replies(reply string) func([]string) string { return func([]string) string { return reply } }

// names is a sentinel's reply.
func names(host, port string) func([]string) string { return replies(canned.Array(host, port)) }

// is a server with that role, and one replica.
func is(role string) func([]string) string {
	return replies(canned.Bulk("role:" + role + "\r\nconnected_slaves:1\r\n"))
}

// alone is a master without its replica.
func alone(runID string) func([]string) string {
	return replies(canned.Bulk("role:master\r\nconnected_slaves:0\r\nrun_id:" + runID + "\r\n"))
}

type counted struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

func (w *watched) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	serve := w.servers[address]
	switch {
	case serve == nil:
		return nil, syscall.ECONNREFUSED
	case address == "gone:1":
		runtime.Goexit()
	case address == "nowhere:1" || address == w.hangs:
		<-ctx.Done()
		if w.lookup {
			return nil, &net.DNSError{UnwrapErr: ctx.Err(), Err: "i/o timeout", Name: address, IsTimeout: true}
		}
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	if w.secured != nil {
		theirs = w.secured(theirs)
	}
	go canned.Serve(theirs, serve)
	w.open.Add(1)
	return &counted{Conn: ours, open: &w.open}, nil
}

// pool is of a node with that URL.
func (w *watched) pool(t *testing.T, url string, timeout time.Duration, more ...Option) *redis.Pool {
	t.Helper()
	e, err := parseURL(url, new(options))
	testkit.Must(t, err)
	o, err := newOptions(append(more, WithFailover(1), WithTimeout(timeout), WithDialer(w.dial)))
	testkit.Must(t, err)
	return (&server{opts: o, endpoint: e}).newPool()
}

const url3 = "redis+sentinel://a,b:1,c/m?failover=1"

// A connection leads to what a sentinel names if it is a master. Otherwise the error has all reasons. No connection to a
// sentinel stays open.
func TestSentinels(t *testing.T) {
	type servers = map[string]func([]string) string
	wrongPassword := replies("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	for what, c := range map[string]struct {
		servers   servers
		want      string // of the error; empty for a connection to p:6379
		wraps     error
		permanent bool
		takes     time.Duration
	}{
		"all name it":          {servers: servers{"a:26379": names("p", "6379"), "p:6379": is("master")}},
		"the first is dead":    {servers: servers{"b:1": names("p", "6379"), "p:6379": is("master")}},
		"two are dead":         {servers: servers{"c:26379": names("p", "6379"), "p:6379": is("master")}},
		"the first is another": {servers: servers{"a:26379": replies("-ERR unknown command `SENTINEL`, with args beginning with: \r\n"), "b:1": names("p", "6379"), "p:6379": is("master")}},
		"the first is new":     {servers: servers{"a:26379": replies("*-1\r\n"), "b:1": names("p", "6379"), "p:6379": is("master")}},
		"the first is stale":   {servers: servers{"a:26379": names("r", "1"), "r:1": is("slave"), "b:1": names("p", "6379"), "p:6379": is("master")}},
		"its master is alone":  {servers: servers{"a:26379": names("q", "1"), "q:1": alone("q"), "b:1": names("p", "6379"), "p:6379": is("master")}},
		"two are alone": {servers: servers{"a:26379": names("q", "1"), "q:1": alone("q"), "b:1": names("r", "1"), "r:1": alone("r"),
			"c:26379": names("p", "6379"), "p:6379": is("master")}},
		"it names a dead one": {servers: servers{"a:26379": names("r", "1"), "b:1": names("p", "6379"), "p:6379": is("master")}},
		"the first is frozen": {servers: servers{"a:26379": silent, "b:1": names("p", "6379"), "p:6379": is("master")}, takes: 100 * time.Millisecond},
		"two name a dead one, and one is slow": {servers: servers{"a:26379": names("r", "1"), "b:1": names("r", "1"), "p:6379": is("master"),
			"c:26379": func([]string) string { time.Sleep(300 * time.Millisecond); return canned.Array("p", "6379") }}, takes: 700 * time.Millisecond},
		"two are frozen": {servers: servers{"a:26379": silent, "b:1": silent, "c:26379": names("p", "6379"), "p:6379": is("master")},
			takes: 200 * time.Millisecond},

		"none answers": {want: "sentinel a:26379, b:1, c:26379: connection refused", wraps: syscall.ECONNREFUSED},
		"all are frozen": {servers: servers{"a:26379": silent, "b:1": silent, "c:26379": silent}, wraps: ErrTimeout, takes: 3825 * time.Millisecond,
			want: "sentinel a:26379, b:1, c:26379: timed out"},
		"all name a replica": {servers: servers{"a:26379": names("r", "1"), "b:1": names("r", "1"), "c:26379": names("r", "1"), "r:1": is("slave")},
			want: "sentinel a:26379, b:1, c:26379: names r:1: it is a replica", wraps: errDemoted},
		"it names nobody that listens": {servers: servers{"a:26379": names("::1", "1"), "b:1": names("r", "1"), "r:1": is("slave")},
			want: "sentinel a:26379: names [::1]:1: connection refused; sentinel b:1: names r:1: it is a replica; " +
				"sentinel c:26379: connection refused", wraps: syscall.ECONNREFUSED},
		"none knows it": {servers: servers{"a:26379": replies("*-1\r\n"), "b:1": replies("*-1\r\n"), "c:26379": replies("*-1\r\n")},
			want: `sentinel a:26379, b:1, c:26379: knows no master "m"`, wraps: ErrInvalid, permanent: true},
		"one knows none": {servers: servers{"a:26379": replies("*-1\r\n")},
			want: `sentinel a:26379: knows no master "m"; sentinel b:1, c:26379: connection refused`, wraps: syscall.ECONNREFUSED},
		"one names a port only": {servers: servers{"a:26379": replies(canned.Array("6379"))}, want: "sentinel a:26379: names no address"},
		"one names no host":     {servers: servers{"a:26379": replies("*2\r\n$-1\r\n$4\r\n6379\r\n"), ":6379": is("master")}, want: "sentinel a:26379: names no address"},
		"one cannot be reached": {servers: servers{"c:26379": nowhere}, takes: 2550 * time.Millisecond, wraps: ErrTimeout,
			want: "sentinel a:26379, b:1: connection refused; sentinel c:26379: timed out"},
		"one is a name that is not found": {servers: servers{"c:26379": nowhere}, takes: 2550 * time.Millisecond, wraps: ErrTimeout,
			want: "sentinel a:26379, b:1: connection refused; sentinel c:26379: timed out looking up its name"},
		"servers that are none": {servers: servers{"a:26379": replies("-ERR unknown command\r\n"), "b:1": replies("-ERR unknown command\r\n"), "c:26379": replies("+OK\r\n")},
			want: "sentinel a:26379, b:1: is no sentinel, but another server; sentinel c:26379: names no address", wraps: ErrInvalid, permanent: true},
		"all refuse the password": {servers: servers{"a:26379": wrongPassword, "b:1": wrongPassword, "c:26379": wrongPassword},
			want: "sentinel a:26379, b:1, c:26379: WRONGPASS", permanent: true},
		"the master refuses the password": {servers: servers{"b:1": names("p", "6379"), "p:6379": wrongPassword},
			want: "sentinel b:1: names p:6379: WRONGPASS", permanent: true},
		"the master takes all the time": {servers: servers{"a:26379": names("nowhere", "1"), "nowhere:1": nowhere}, takes: 5 * time.Second,
			want: "sentinel a:26379: names nowhere:1: timed out after 5s; sentinel b:1, c:26379: not asked in time", wraps: ErrTimeout},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{servers: c.servers}
				if c.takes == 2550*time.Millisecond {
					w.hangs, w.lookup = "c:26379", strings.Contains(c.want, "looking up")
				}
				pool := w.pool(t, strings.Replace(url3, "//", "//user:secret@", 1)+"&sentinel-password=secret", 400*time.Millisecond)
				defer pool.Close()
				began := time.Now()
				conn, err := pool.GetContext(t.Context())
				testkit.Equal(t, time.Since(began).Round(time.Millisecond), c.takes, "time")
				if c.want == "" {
					testkit.Must(t, err)
					testkit.Equal(t, w.dialled[len(w.dialled)-1], "p:6379", "connected to")
					testkit.Equal(t, w.open.Load(), 1, "open connections")
					testkit.Must(t, conn.Close())
					return
				}
				testkit.Check(t, err != nil && strings.Contains(err.Error(), c.want),
					"%v, want %s", err, c.want)
				testkit.Is(t, err, redisconn.ErrNoMaster, "of another kind")
				testkit.Check(t, c.wraps == nil || errors.Is(err, c.wraps), "%v does not wrap %v", err, c.wraps)
				testkit.Equal(t, (&Error{Op: "connect", Err: err}).Permanent(), c.permanent, "permanent")
				testkit.Check(t, !strings.Contains(err.Error(), "secret"), "%v reveals a password", err)
				testkit.Equal(t, w.open.Load(), 0, "open connections")
			})
		})
	}
}

// The next connection begins with the sentinel that led to a master last, and not with one whose master took all the time.
func TestTheSentinelThatIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{servers: map[string]func([]string) string{"a:26379": silent, "b:1": names("p", "6379"), "p:6379": is("master")}}
		pool := w.pool(t, url3, 400*time.Millisecond)
		defer pool.Close()
		connect := func() string {
			w.dialled = nil
			conn, err := pool.DialContext(t.Context())
			if err == nil {
				conn.Close()
			}
			return strings.Join(w.dialled, " ")
		}
		testkit.Equal(t, connect(), "a:26379 b:1 p:6379", "the first dials")
		began := time.Now()
		testkit.Equal(t, connect(), "b:1 p:6379", "the next dials")
		testkit.Equal(t, time.Since(began), 0, "the delay by the frozen sentinel")
		w.servers["p:6379"], w.servers["b:1"], w.servers["c:26379"] = nil, names("nowhere", "1"), names("q", "1")
		w.servers["nowhere:1"], w.servers["q:1"] = nowhere, is("master")
		testkit.Equal(t, connect(), "b:1 nowhere:1", "the dials of a stale sentinel")
		testkit.Equal(t, connect(), "c:26379 q:1", "the dials after that")
	})
}

// A sentinel gets its own credentials, and the master its own.
func TestTheCredentialsOfSentinels(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "&sentinel-password=a%26b": "AUTH a&b", "&sentinel-username=u&sentinel-password=p": "AUTH u p",
	} {
		told := map[string]string{}
		hearing := func(who string, reply func([]string) string) func([]string) string {
			return func(args []string) string {
				if args[0] != "AUTH" {
					return reply(args)
				}
				told[who] += strings.Join(args, " ")
				return "+OK\r\n"
			}
		}
		w := &watched{servers: map[string]func([]string) string{
			"a:26379": hearing("sentinel", names("p", "6379")), "p:6379": hearing("master", is("master"))}}
		pool := w.pool(t, "redis+sentinel://app:secret@a/m?failover=1"+query, 10*time.Second)
		conn, err := pool.GetContext(t.Context())
		testkit.Must(t, err)
		testkit.Must(t, conn.Close())
		testkit.Must(t, pool.Close())
		testkit.Equal(t, told["sentinel"], want, "the sentinel's")
		testkit.Equal(t, told["master"], "AUTH app secret", "the master's")
	}
}

func TestURLsOfSentinel(t *testing.T) {
	for url, want := range map[string]struct{ address, name string }{
		"redis+sentinel://h/m?failover=1":                              {"h:26379/m", "m"},
		"REDISS+Sentinel://h/m?failover=1":                             {"h:26379/m", "m"},
		"valkey+sentinel://h/m?failover=1":                             {"h:26379/m", "m"},
		"redis+sentinel://a:1,b,[::1]:2,[fe80::1%25eth0]/m?failover=2": {"a:1,b:26379,[::1]:2,[fe80::1%eth0]:26379/m", "m"},
		"redis+sentinel://u:a,b@h,i/m?failover=1":                      {"h:26379,i:26379/m", "m"},
		"redis+sentinel://h/m%2dn/?failover=1":                         {},
		"redis+sentinel://h/m%2dn?failover=1&db=3":                     {"h:26379/m-n", "m-n/3"},
		"redis+sentinel://h/m?failover=1&name=north":                   {"h:26379/m", "north"},
		"redis+sentinel://h/m?failover=1&db=1&sentinel-password=a%23":  {"h:26379/m", "m/1"},
	} {
		n, err := Open(url)
		if want.name == "" {
			testkit.Is(t, err, ErrInvalid, url)
			continue
		}
		testkit.Must(t, err)
		testkit.Equal(t, n.Address(), want.address, "the address of "+url)
		testkit.Equal(t, n.Name(), want.name, "the name of "+url)
		testkit.Must(t, n.Close())
	}
	n, err := Open("redis+sentinel://h/m", WithFailover(1))
	testkit.Must(t, err)
	testkit.Must(t, n.Close())
	const names = "the path of a URL of Sentinel is its name of the master alone"
	for url, says := range map[string]string{
		"redis+sentinel://h/m":                      "Sentinel may make a master of a replica that lacks locks: say how many replicas",
		"redis+sentinel://:secret@h?failover=1":     names,
		"redis+sentinel://h/?failover=1":            names,
		"redis+sentinel://h/m/1?failover=1":         names,
		"redis+sentinel:///m?failover=1":            "names no host",
		"redis+sentinel://h,/m?failover=1":          "names no host",
		"redis+sentinel://,h/m?failover=1":          "names no host",
		"redis+sentinel://h,i:x/m?failover=1":       "port must be a number",
		"redis+sentinel://h:x,i/m?failover=1":       "port must be a number",
		"redis+sentinel://h,i:70000/m?failover=1":   "between 1 and 65535",
		"redis+sentinel://h,i:1:2/m?failover=1":     "colon",
		"redis+sentinel://h,redis://i/m?failover=1": "several URLs",
		"redis+sentinel://h redis+sentinel://i/m":   "several URLs",
		"unix+sentinel:///h/m":                      "clusters and several hosts",
		"redis+sentinel:h/m?failover=1":             "",
		"redis://h?sentinel-password=x":             "not one \"sentinel-password\"",
		"redis+sentinel://h/m?sentinel-username=u":  "no sentinel-password",
		"redis+sentinel://h/m?sentinel-password=":   "sentinel-password",
		"redis+sentinel://h/m?server-name=x":        "",
		"redis+sentinel://h":                        names,
		"redis+sentinel://app:12/cret@h?failover=1": "after its host",
		"redis+sentinel:h":                          "clusters and several hosts",
		"redis://h?sentinel-username=x":             "not one \"sentinel-username\"",

		"redis+sentinel://h/m?sentinel-username=a&sentinel-username=b&sentinel-password=p": "special characters percent-encoded",

		"redis+sentinel://:se/cret@h/m":              "",
		"redis+sentinel://h/m?sentinel-password=x@y": "after its host",

		"redis+sentinel://h/m?failover=1&sentinel-password=x&secret":   "special characters percent-encoded",
		"redis+sentinel://h/m?failover=1&sentinel-password=x&secret=y": "special characters percent-encoded",
		"redis+sentinel://h/m?failover=1&sentinel-password=x#secret":   "fragment",
	} {
		text := refusesURL(t, url)
		testkit.Check(t, strings.Contains(text, says), "%s: %s, want %s", url, text, says)
	}
}

// A sentinel itself is no master, and its error says how it is asked for one. Nor is a node of a cluster, nor a server without
// the engine for scripts.
func TestServersThatAreNoMasters(t *testing.T) {
	err := new(server).Refuse(redisconn.Info{"redis_mode": "sentinel", "run_id": "x"})
	testkit.Is(t, err, ErrInvalid, "a sentinel")
	testkit.Check(t, strings.Contains(err.Error(), "redis+sentinel://"), "%v", err)
	failsOver := server{opts: options{failover: 1}}
	testkit.Is(t, failsOver.Refuse(redisconn.Info{"run_id": "x", "role": "master"}), ErrInvalid, "a server whose promotion would not show")
	testkit.Is(t, new(server).Refuse(redisconn.Info{"redis_mode": "cluster", "run_id": "x", "role": "master"}), ErrInvalid, "a cluster")
	testkit.Is(t, scriptError(redis.Error("ERR Could not find scripting engine 'lua'")), ErrScripts, "a server without the engine")
}

// With TLS a sentinel and a master have the hosts that are dialed as their names, or both the URL's server-name.
func TestTheNamesOfSentinelsWithTLS(t *testing.T) {
	by, err := redistest.NewAuthority()
	testkit.Must(t, err)
	dir := t.TempDir()
	testkit.Must(t, by.Issue(dir, "localhost"))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	testkit.Must(t, err)
	for query, want := range map[string]string{"": "a p", "&server-name=localhost": "localhost localhost"} {
		testkit.Bubble(t, want, func(t *testing.T) { // on a busy machine a handshake may take as long as a sentinel is given at first
			var asked []string
			w := &watched{servers: map[string]func([]string) string{"a:26379": names("p", "6379"), "p:6379": is("master")}}
			secure := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				asked = append(asked, hello.ServerName)
				return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
			}}
			w.secured = func(c net.Conn) net.Conn { return tls.Server(c, secure) }
			pool := w.pool(t, strings.Replace(url3, "redis", "rediss", 1)+query, 10*time.Second, WithTLS(&tls.Config{InsecureSkipVerify: true}))
			conn, err := pool.GetContext(t.Context())
			testkit.Must(t, err)
			testkit.Equal(t, strings.Join(asked, " "), want, "the names that servers were asked by")
			testkit.Must(t, conn.Close())
			testkit.Must(t, pool.Close())
			w.secured = func(c net.Conn) net.Conn { c.Close(); return c }
			_, err = pool.DialContext(t.Context())
			testkit.Check(t, err != nil && w.open.Load() == 0, "%d connections are left of handshakes that fail: %v", w.open.Load(), err)
		})
	}
}
