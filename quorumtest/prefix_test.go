package quorumtest

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorum/semaphore"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/scripts"
)

// The masters of a deployment with a prefix grant at once, and its locks and slots are lost, as any others.
func TestDeploymentWithAPrefix(t *testing.T) {
	m := Start(t, 3, node.WithPrefix("team"))
	service := testkit.Opened(redlock.Open(m.URLs(), quorum.WithNodeOptions(node.WithPrefix("team"))))(t)
	slot := testkit.Got(semaphore.New(service, "s", 1).Acquire(t.Context()))(t)
	for channel, lock := range map[string]*quorum.Lock{
		scripts.Channel("a"): mustLock(t, service, "a"), scripts.Channel(scripts.SlotName("s", 0)): slot,
	} {
		conn := testkit.Opened(redis.DialURL(m.URLs()[0]))(t)
		heard := redis.PubSubConn{Conn: conn}
		testkit.Must(t, heard.Subscribe("team:"+channel))
		_, ok := heard.ReceiveWithTimeout(patience).(redis.Subscription)
		testkit.Require(t, ok, "not subscribed")
		m.Lose(lock)
		isLost(t, lock)
		got := heard.ReceiveWithTimeout(patience)
		_, ok = got.(redis.Message)
		testkit.Check(t, ok, "%s: heard %v", channel, got)
	}
	m.HoldElsewhere("a")
	wantTry(t, service, quorum.ErrHeld, "a")
}
