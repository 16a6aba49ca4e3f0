package node_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
)

// CLIENT LIST shows whose the connections are. Those of a pool of the user's keep their name.
func TestConnectionsHaveAName(t *testing.T) {
	m := startReal(t)
	named := func() int {
		t.Helper()
		list, err := redis.String(m.Do("CLIENT", "LIST", "TYPE", "NORMAL"))
		testkit.Must(t, err)
		return strings.Count(list, " name=quorumlock ")
	}
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	defer pool.Close()
	own, err := node.New(pool, node.WithName("the-node"))
	testkit.Must(t, err)
	_, err = operator.Check(t.Context(), own)
	testkit.Must(t, err)
	do(t, own, acquire("k", "o:1"))
	if got := named(); got != 0 {
		t.Errorf("%d connections of the user's own pool have the name", got)
	}
	testkit.Must(t, own.Close())
}

// So do the connections of Check and Admit, and those on which releases are heard.
func TestAllConnectionsHaveAName(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]node.Option{
		"quorumlock":     nil,
		"billing/lock~7": {node.WithClientName("billing/lock~7")},
	} {
		wantName(t, name, opts...)
	}
}

// wantName fails the test unless all connections of a node with these options have that name.
func wantName(t *testing.T, name string, opts ...node.Option) {
	t.Helper()
	m := startReal(t)
	n := open(t, m.URL(), opts...)
	_, err := operator.Check(t.Context(), n)
	testkit.Must(t, err)
	testkit.Must(t, operator.Admit(t.Context(), n))
	mark(t, n)
	subscribed := make(chan struct{})
	defer inside.Of(n).Subscriptions.Subscribe("redisson_lock__channel:{k}", subscriber{confirmed: subscribed})()
	<-subscribed
	list, err := redis.String(m.Do("CLIENT", "LIST"))
	testkit.Must(t, err)
	for client := range strings.Lines(list) {
		if !strings.Contains(client, " name="+name+" ") && !strings.Contains(client, " cmd=client") {
			t.Errorf("a connection has no name: %s", client)
		}
	}
	if !strings.Contains(list, " sub=1 ") {
		t.Errorf("no connection is subscribed: %s", list)
	}
}

// CLIENT SETNAME refuses such a name, and the connections would have none.
func TestClientNamesThatAreRefused(t *testing.T) {
	for _, name := range []string{"", "a b", "a\n", "\x7f", "é", strings.Repeat("a", 256)} {
		if n, err := node.Open("redis://a", node.WithClientName(name)); !errors.Is(err, node.ErrInvalid) || n != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A user that may not name connections locks as well.
func TestNameMayBeForbidden(t *testing.T) {
	m := startReal(t)
	mark(t, open(t, m.URL()))
	testkit.Do(t, m, redistest.SetUser("app", "on", ">secret", "~*", "&*", "+@all", "-client")...)
	n := open(t, strings.Replace(m.URL(), "://", "://app:secret@", 1))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
}
