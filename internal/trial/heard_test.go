package trial_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/trial/heard"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// between is a connection that refuses SUBSCRIBE, or loses the messages that come after its confirmation, or has others instead.
type between struct {
	net.Conn
	refuses, loses    bool
	instead           string
	refused, confirms bool
}

func (b *between) Write(data []byte) (int, error) {
	if bytes.Contains(data, []byte("SUBSCRIBE")) {
		if b.confirms = true; b.refuses {
			b.refused = true
			return len(data), nil
		}
	}
	return b.Conn.Write(data)
}

func (b *between) Read(to []byte) (int, error) {
	if b.refused {
		b.refused = false
		return copy(to, "-NOPERM this user may not access the channel\r\n"), nil
	}
	n, err := b.Conn.Read(to)
	if b.instead != "" && err == nil && bytes.Contains(to[:n], []byte("$7\r\nmessage\r\n")) {
		return copy(to, b.instead), nil
	}
	for b.loses && err == nil && bytes.Contains(to[:n], []byte("$7\r\nmessage\r\n")) {
		n, err = b.Conn.Read(to)
	}
	return n, err
}

// A trial says whether the message of the release was heard, and why not. What refuses it ends it soon, and it leaves nothing.
func TestWhatATrialHears(t *testing.T) {
	refuses := func(command string) func(*world.World, *world.Process) {
		return func(w *world.World, _ *world.Process) { w.Masters[0].Refuse(fakeredis.Refusals{Forbidden: command}) }
	}
	tampers := func(b between) func(*world.World, *world.Process) {
		return func(_ *world.World, p *world.Process) {
			p.Wrap = func(_ int, c net.Conn) net.Conn { b := b; b.Conn = c; return &b }
		}
	}
	for what, c := range map[string]struct {
		before            func(*world.World, *world.Process)
		outcome           scripts.Outcome
		unheard, says     string
		isLate, keepsName bool
	}{
		"heard":              {outcome: scripts.Granted},
		"PUBLISH is refused": {before: refuses("PUBLISH"), outcome: scripts.Granted, unheard: "release: the user may not PUBLISH its message"},
		"SUBSCRIBE is refused": {before: tampers(between{refuses: true}), outcome: scripts.Granted,
			unheard: "subscribe: NOPERM this user may not access the channel"},
		"a message is lost": {before: tampers(between{loses: true}), outcome: scripts.Granted, isLate: true,
			unheard: "subscribe: no message of the release was heard: timed out"},
		"a message is malformed": {before: tampers(between{instead: "*1\r\n$1\r\nx\r\n"}), outcome: scripts.Granted,
			unheard: `subscribe: no message of the release was heard: scripts: malformed reply: ["x"]`},
		"a message is another channel's": {before: tampers(between{instead: "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\n0\r\n"}),
			outcome: scripts.Granted, unheard: `subscribe: no message of the release was heard: scripts: malformed reply: ["message" "x" "0"]`},
		"SUBSCRIBE is lost": {before: func(_ *world.World, p *world.Process) {
			p.Sends = func(_ int, data []byte) bool { return !bytes.Contains(data, []byte("SUBSCRIBE")) }
		}, isLate: true, says: "subscribe: timed out"},
		"an acquire is lost": {before: func(_ *world.World, p *world.Process) {
			p.Sends = func(_ int, data []byte) bool { return !bytes.Contains(data, []byte("quorumlock:released:")) }
		}, isLate: true, says: "acquire: timed out"},
		"a renewal is refused": {before: refuses("HEXISTS"), outcome: scripts.Granted, says: "renew: ERR The user executing the script"},
		"the master is down":   {before: func(w *world.World, _ *world.Process) { w.Masters[0].Stop() }, says: "subscribe: "},
		"held for ever": {before: func(w *world.World, p *world.Process) {
			conn := redis.NewConn(testkit.Got(p.Dial(context.Background(), 0))(t), 0, 0)
			defer conn.Close()
			testkit.Got(conn.Do("HSET", "a", "o:1", "1"))(t)
		}, outcome: scripts.HeldByAnother, keepsName: true},
	} {
		testkit.Bubble(t, what, func(t *testing.T) {
			w := world.New(t, 1)
			p := w.NewProcess()
			own := w.NewProcess().Nodes()[0]
			testkit.Must(t, operator.AdmitMembers(t.Context(), own, []string{own.Name()}))
			if c.before != nil {
				c.before(w, p)
			}
			n, begun := p.Nodes(node.WithConns(1))[0], time.Now()
			reply, unheard, err := heard.Lock(t.Context(), n, scripts.NewList(n.Name()), scripts.NewName("a"))
			testkit.Equal(t, reply.Outcome, c.outcome, "the outcome")
			testkit.Check(t, (unheard == nil) == (c.unheard == "") && strings.Contains(fmt.Sprint(unheard), c.unheard), "unheard: %v", unheard)
			testkit.Check(t, (err == nil) == (c.says == "") && strings.Contains(fmt.Sprint(err), c.says), "it says %v", err)
			took := time.Since(begun)
			testkit.Check(t, took < n.Timeout() || c.isLate && took < 2*n.Timeout(), "it took %v", took)
			testkit.Pass(time.Second)
			testkit.Equal(t, slices.Contains(w.Masters[0].Keys(), "a"), c.keepsName, "the name is held")
		})
	}
}

// Whom the first owner should have kept out is granted if it is gone, and leaves nothing.
func TestASecondOwnerThatIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, 1)
		n, name := w.NewProcess().Nodes()[0], scripts.NewName("a")
		testkit.Must(t, operator.AdmitMembers(t.Context(), n, []string{n.Name()}))
		acquire := scripts.AcquireArgs{Names: []scripts.Name{name}, Depth: 1, Lease: scripts.ToMillis(time.Second), List: scripts.NewList(n.Name()), Seed: 1}
		testkit.Must(t, heard.Contend(t.Context(), n, acquire, scripts.NewOwner("locker", 2)))
		testkit.Pass(100 * time.Millisecond)
		testkit.Equal(t, len(w.Masters[0].Holdings()), 0, "what is held")
	})
}
