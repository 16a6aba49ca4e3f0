package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A master that lacks its replica is used if no sentinel names another one that does not. Those that are slow are waited
// for unless two agree.
func TestAMasterThatIsAlone(t *testing.T) {
	for what, c := range map[string]struct {
		a, b, c, d func([]string) string // the sentinels
		dials      string
		takes      time.Duration
	}{
		"all name it":                                   {names("q", "1"), names("q", "1"), names("q", "1"), nil, "a q b c", 0},
		"another is alone, too":                         {names("q", "1"), names("r", "1"), names("q", "1"), nil, "a q b r c", 0},
		"one knows no other":                            {names("q", "1"), replies("*-1\r\n"), nil, nil, "a q b c", 0},
		"another is a replica":                          {names("q", "1"), names("s", "1"), nil, nil, "a q b s c", 0},
		"another does not answer":                       {names("q", "1"), names("nowhere", "1"), nil, nil, "a q b nowhere c b", 400 * time.Millisecond},
		"another stands still":                          {names("q", "1"), names("silent", "1"), nil, nil, "a q b silent c b", 400 * time.Millisecond},
		"two name it, one is silent":                    {names("q", "1"), names("q", "1"), silent, nil, "a q b c", 100 * time.Millisecond},
		"one names it, one is silent":                   {names("q", "1"), nil, silent, nil, "a q b c c", 2550 * time.Millisecond},
		"two name it, one a replica, and one is silent": {names("q", "1"), names("q", "1"), names("s", "1"), silent, "a q b c s d", 80 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{servers: map[string]func([]string) string{"a:26379": c.a, "b:1": c.b, "c:26379": c.c, "d:26379": c.d, "q:1": alone("q"),
					"r:1": alone("r"), "s:1": is("slave"), "silent:1": silent, "nowhere:1": nowhere}}
				url := url3
				if c.d != nil {
					url = strings.Replace(url, "c/", "c,d/", 1)
				}
				pool := w.pool(t, url, 400*time.Millisecond)
				defer pool.Close()
				began := time.Now()
				conn, err := pool.GetContext(t.Context())
				testkit.Must(t, err)
				testkit.Equal(t, time.Since(began).Round(time.Millisecond), c.takes, "time")
				var hosts []string
				for _, address := range w.dialled {
					host, _, _ := strings.Cut(address, ":")
					hosts = append(hosts, host)
				}
				testkit.Equal(t, strings.Join(hosts, " "), c.dials, "dials")
				reply, err := conn.Do("INFO")
				testkit.Must(t, err)
				testkit.Equal(t, redisconn.ReadInfo(reply)["run_id"], "q", "connected to")
				testkit.Equal(t, w.open.Load(), 1, "open connections")
				testkit.Must(t, conn.Close())
				w.dialled, w.servers["b:1"], w.servers["p:6379"] = nil, names("p", "6379"), is("master")
				conn, err = pool.DialContext(t.Context())
				testkit.Must(t, err)
				testkit.Equal(t, strings.Join(w.dialled, " "), "b:1 p:6379", "the next dials")
				testkit.Must(t, conn.Close())
			})
		})
	}
}

// Sentinels that name two masters are of two deployments, unless one of these has been made a replica. Each that leads to no
// master is noted, and one that is silent takes no more than a timeout.
func TestSentinelsOfTwoDeployments(t *testing.T) {
	for what, c := range map[string]struct {
		a, b, c func([]string) string // the sentinels
		two     string
		notes   string
		takes   time.Duration
	}{
		"all name one":         {a: names("q", "1"), b: names("q", "1"), c: names("q", "1")},
		"one by two addresses": {a: names("q", "1"), b: names("q", "2"), c: names("q", "1")},
		"two masters":          {a: names("q", "1"), b: names("q", "1"), c: names("r", "1"), two: "Sentinel a:26379 names q:1, and Sentinel c:26379 names r:1"},
		"one is dead":          {b: names("q", "1"), c: names("r", "1"), two: "Sentinel b:1 names q:1, and Sentinel c:26379 names r:1", notes: "Sentinel a:26379: connection refused"},
		"one is a replica":     {a: names("q", "1"), b: names("q", "1"), c: names("s", "1"), notes: "Sentinel c:26379: names s:1: it is a replica"},
		"one knows none":       {a: names("q", "1"), b: names("q", "1"), c: replies("*-1\r\n"), notes: `Sentinel c:26379: knows no master "m"`},
		"one is silent":        {a: names("q", "1"), b: silent, c: names("q", "1"), notes: "Sentinel b:1: timed out", takes: 500 * time.Millisecond},
		"one's master is, too": {a: names("q", "1"), b: names("silent", "1"), c: names("q", "1"), notes: "Sentinel b:1: names silent:1: timed out", takes: 500 * time.Millisecond},
		"one's dial ends its goroutine": {a: names("q", "1"), b: names("gone", "1"), c: names("q", "1"), notes: "Sentinel b:1: names gone:1: the code that " +
			"makes connections has ended its goroutine (t.FailNow, runtime.Goexit)"},
		"one's master is dead": {a: names("q", "1"), b: names("t", "1"), c: names("q", "1"), notes: "Sentinel b:1: names t:1: connection refused"},
		"all are dead":         {notes: "Sentinel a:26379: connection refused; Sentinel b:1: connection refused; Sentinel c:26379: connection refused"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{servers: map[string]func([]string) string{"a:26379": c.a, "b:1": c.b, "c:26379": c.c, "q:1": alone("q"), "q:2": alone("q"),
					"r:1": alone("r"), "s:1": is("slave"), "silent:1": silent, "gone:1": gone}}
				n, err := Open(url3, WithDialer(w.dial))
				testkit.Must(t, err)
				defer n.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				began := time.Now()
				notes, two := n.server.AskSentinels(ctx)
				testkit.Equal(t, time.Since(began).Round(time.Millisecond), c.takes, "time")
				testkit.Check(t, (two == nil) == (c.two == "") && (two == nil || errors.Is(two, ErrInvalid) && strings.Contains(two.Error(), c.two)), "%v, want %s", two, c.two)
				testkit.Equal(t, strings.Join(notes, "; "), c.notes, "notes")
				testkit.Equal(t, w.open.Load(), 0, "open connections")
			})
		})
	}
}

// Where nobody is told the password, the sentinels' masters are not asked without it.
func TestSentinelsWithoutCredentials(t *testing.T) {
	w := &watched{servers: map[string]func([]string) string{"a:26379": names("q", "1"), "q:1": alone("q")}}
	sealed := func(context.Context) (user, password string, err error) {
		return "", "", errors.New("the vault is sealed")
	}
	n := testkit.Opened(Open("redis+sentinel://a/m?failover=1", WithDialer(w.dial), WithCredentials(sealed)))(t)
	notes, two := n.server.AskSentinels(t.Context())
	testkit.Check(t, two == nil && len(notes) == 1 && strings.Contains(notes[0], "the vault is sealed") && len(w.dialled) == 0, "%q, %v", notes, two)
	notes, two = testkit.Opened(Open("redis://a"))(t).server.AskSentinels(t.Context())
	testkit.Check(t, two == nil && notes == nil, "of a URL without Sentinel: %q, %v", notes, two)
}
