package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// vault returns the password of user "app", and counts how often.
type vault struct {
	password atomic.Value
	asked    atomic.Int64
}

func holding(password string) *vault {
	v := new(vault)
	v.password.Store(password)
	return v
}

func (v *vault) ask(context.Context) (user, password string, err error) {
	v.asked.Add(1)
	return "app", v.password.Load().(string), nil
}

// rotate makes that the only password of user "app".
func rotate(t *testing.T, m *redistest.Master, password string) {
	t.Helper()
	testkit.Do(t, m, redistest.SetUser("app", "on", "resetpass", ">"+password, "~*", "&*", "+@all")...)
}

// appConns returns the ids of the connections of user "app", by type: of calls, or of messages.
func appConns(t *testing.T, m *redistest.Master, kind string) (ids string) {
	t.Helper()
	list := testkit.Got(redis.String(m.Do("CLIENT", "LIST", "TYPE", kind)))(t)
	for line := range strings.Lines(list) {
		if strings.Contains(line, "user=app") {
			id, _, _ := strings.Cut(line, " ")
			ids += id
		}
	}
	return ids
}

// subscriber takes messages. It closes confirmed, if that is not nil, with its first subscription.
type subscriber struct{ confirmed chan struct{} }

func (s subscriber) OnSubscribed() {
	if s.confirmed != nil {
		close(s.confirmed)
	}
}
func (subscriber) OnMessage()      {}
func (subscriber) OnUnsubscribed() {}

// A connection that exists lives on with the old password, and a new one uses the new password: for calls, for
// messages, and in Check.
func TestAPasswordThatRotates(t *testing.T) {
	m := startReal(t)
	rotate(t, m, "first")
	v := holding("first")
	n := open(t, m.URL(), node.WithCredentials(v.ask))
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	cancel := inside.Of(n).Subscriptions.Subscribe("redisson_lock__channel:{k}", subscriber{})
	defer cancel()
	testkit.Eventually(t, "subscribed", func() bool { return appConns(t, m, "PUBSUB") != "" })
	calls, messages := appConns(t, m, "NORMAL"), appConns(t, m, "PUBSUB")
	testkit.Equal(t, v.asked.Load(), 6, "times asked, for two connections, and four that showed where the address leads")

	rotate(t, m, "second")
	v.password.Store("second")
	mustGrant(t, do(t, n, acquire("l", "o:1")))
	testkit.Equal(t, appConns(t, m, "NORMAL"), calls, "the connection of calls")
	testkit.Equal(t, appConns(t, m, "PUBSUB"), messages, "the connection of messages")
	testkit.Equal(t, v.asked.Load(), 6, "times asked, with two connections that lived on")
	testkit.Equal(t, check(t, n).Role, "master", "the role that Check reports")
	testkit.Equal(t, v.asked.Load(), 15, "times asked, also by Check, which dials nine times")

	testkit.Do(t, m, "CLIENT", "KILL", "USER", "app")
	testkit.Eventually(t, "granted over a new connection", func() bool { return isGranted(do(t, n, acquire("m", "o:1"))) })
	testkit.Eventually(t, "subscribed again", func() bool {
		now := appConns(t, m, "PUBSUB")
		return now != "" && now != messages
	})
}

// isTransient reports whether an error is one of a node that may pass by itself.
func isTransient(err error) bool {
	failed, ok := errors.AsType[*node.Error](err)
	return ok && !failed.Permanent()
}

// The vault may lag behind the server: the refusal passes once it returns the new password.
func TestCredentialsThatLagBehindAreNotPermanent(t *testing.T) {
	m := startReal(t)
	rotate(t, m, "second")
	for what, first := range map[string]struct{ password, reason string }{
		"another password": {"first-s3cret", "WRONGPASS"},
		"none":             {"", "without a password"},
	} {
		t.Run(what, func(t *testing.T) {
			log := &lines{}
			v := holding(first.password)
			n := open(t, m.URL(), node.WithCredentials(v.ask), log.option())
			err := do(t, n, acquire("k", "o:1")).Err
			mustFail(t, n, err, node.ErrDown)
			_, checkErr := operator.Check(t.Context(), n)
			for _, err := range []error{err, checkErr} {
				testkit.Check(t, isTransient(err) && strings.Contains(err.Error(), first.reason) &&
					!strings.Contains(err.Error(), "s3cret"), "the error is %v", err)
			}
			testkit.Eventually(t, "logged", func() bool { return log.logged("node down", first.reason) == 1 })
			v.password.Store("second")
			testkit.Eventually(t, "found again", func() bool { return isGranted(do(t, n, acquire("k", "o:1"))) })
			testkit.Check(t, log.logged("will not pass") == 0 && log.logged("s3cret") == 0, "logged %q", log.String())
		})
	}
	// A permission does not come with another password.
	testkit.Do(t, m, "ACL", "SETUSER", "app", "-evalsha")
	v := holding("second")
	isPermanent(t, do(t, open(t, m.URL(), node.WithCredentials(v.ask)), acquire("k", "o:1")).Err)
	// Neither a user name nor a password: the default user is without one here.
	none := func(context.Context) (user, password string, err error) { return "", "", nil }
	mustGrant(t, do(t, open(t, m.URL(), node.WithCredentials(none)), acquire("k", "o:1")))
	testkit.Do(t, m, "CONFIG", "SET", "requirepass", "secret")
	err := do(t, open(t, m.URL(), node.WithCredentials(none)), acquire("k", "o:1")).Err
	testkit.Check(t, isTransient(err) && strings.Contains(err.Error(), "NOAUTH"), "no credentials: %v", err)
}

// If the vault does not answer, the error does not say that the node is slow.
func TestCredentialsThatDoNotCome(t *testing.T) {
	sealed := errors.New("sealed")
	for want, ask := range map[string]func(context.Context) error{
		"no reply in time (vault: context deadline exceeded)": func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("vault: %w", ctx.Err())
		},
		"no reply in time (context deadline exceeded)": func(ctx context.Context) error { return context.DeadlineExceeded }, // its own
		"vault: sealed": func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("vault: %w", sealed)
		},
	} {
		testkit.Bubble(t, want, func(t *testing.T) {
			n := open(t, "redis://10.0.0.1", node.WithTimeout(time.Second),
				node.WithCredentials(func(ctx context.Context) (user, password string, err error) { return "", "", ask(ctx) }))
			do(t, n, acquire("k", "o:1"))
			time.Sleep(time.Minute)
			_, checkErr := operator.Check(t.Context(), n)
			for _, err := range []error{do(t, n, acquire("k", "o:1")).Err, checkErr} {
				testkit.Check(t, isTransient(err) && !errors.Is(err, node.ErrTimeout) &&
					strings.HasSuffix(err.Error(), "asking for the credentials: "+want), "the error is %v", err)
				testkit.Equal(t, errors.Is(err, sealed), want == "vault: sealed", "wraps the vault's error")
			}
		})
	}
}

// What only Open can do is not ignored by New.
func TestOptionsOfConnectionsThatAreRefused(t *testing.T) {
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	for what, c := range map[string]struct {
		open func() (*node.Node, error)
		says string
	}{
		"credentials over a pool":    {func() (*node.Node, error) { return node.New(&redis.Pool{}, node.WithCredentials(ask)) }, "WithCredentials is for Open"},
		"a dialer over a pool":       {func() (*node.Node, error) { return node.New(&redis.Pool{}, node.WithDialer(noRoute)) }, "WithDialer is for Open"},
		"a name over a pool":         {func() (*node.Node, error) { return node.New(&redis.Pool{}, node.WithClientName("a")) }, "WithClientName is for Open"},
		"no function of credentials": {func() (*node.Node, error) { return node.Open("redis://a", node.WithCredentials(nil)) }, "WithCredentials is nil"},
		"no option":                  {func() (*node.Node, error) { return node.Open("redis://a", nil) }, "an option is nil"},
		"a number over a pool":       {func() (*node.Node, error) { return node.New(&redis.Pool{}, node.WithName("a/01")) }, "ends like a database's number"},
		"no logger":                  {func() (*node.Node, error) { return node.Open("redis://a", node.WithLogger(nil)) }, "the logger is nil"},
		"no dialer":                  {func() (*node.Node, error) { return node.Open("redis://a", node.WithDialer(nil)) }, "WithDialer is nil"},
		"two passwords": {func() (*node.Node, error) { return node.Open("redis://:s3cret@a", node.WithCredentials(ask)) },
			"the URL contains a password, and WithCredentials is given"},
	} {
		n, err := c.open()
		testkit.Check(t, errors.Is(err, node.ErrInvalid) && n == nil && strings.Contains(err.Error(), c.says) &&
			!strings.Contains(err.Error(), "s3cret"), "%s: %v", what, err)
	}
}
