package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// sealed is a server with replicas, whose replies a test chooses. It grants and renews everything.
type sealed struct {
	acknowledged []any // the replies to WAIT, the last one for ever
	info         []any // those to INFO
	grants       []any // those to acquires
}

func replication(role string, replicas int, history string) []byte {
	return fmt.Appendf(nil, "# Replication\r\nrole:%s\r\nconnected_slaves:%d\r\nmaster_replid:%s\r\n", role, replicas, history)
}

func (s *sealed) reply(command string) any {
	first := func(of *[]any) any {
		reply := (*of)[0]
		if len(*of) > 1 {
			*of = (*of)[1:]
		}
		return reply
	}
	switch {
	case command == "PUBLISH":
		return int64(0)
	case command == "WAIT":
		return first(&s.acknowledged)
	case command == "INFO":
		return first(&s.info)
	case command == "renew k4":
		return bulk("R")
	case strings.HasPrefix(command, "acquire") && s.grants != nil:
		return first(&s.grants)
	}
	return int64(1)
}

// withSeal runs a test on a pipe to a server that should have one replica, and the history h.
func withSeal(t *testing.T, s *sealed, test func(t *testing.T, r *runs)) {
	withRuns(t, s.reply, func(t *testing.T, r *runs) {
		r.made = func(_ context.Context, c *Conn) error { c.Seal = Seal{Replicas: 1, History: "h"}; return nil }
		test(t, r)
	})
}

var intact = replication("master", 1, "h")

// leftCount counts the connections that were left.
type leftCount struct {
	discardLog
	left int
}

func (c *leftCount) Left(error) { c.left++ }

// A call counts with its seal: else its outcome is unknown, and the connection ends. TestSeal has what breaks one.
func TestACallCountsWithItsSeal(t *testing.T) {
	for what, c := range map[string]struct {
		acknowledged, info any
		want               string
	}{
		"acknowledged":      {int64(1), intact, "granted 101"},
		"not acknowledged":  {int64(0), intact, "acquire: not replicated: 0 of 1 replica acknowledged in time"},
		"a replica":         {redis.Error("ERR WAIT cannot be used with replica instances."), replication("slave", 1, "h"), "granted 101, resent"},
		"no reply to WAIT":  {errSilence, errSilence, "acquire: timed out after 1s"},
		"no reply to INFO":  {int64(1), errSilence, "acquire: timed out after 1s"},
		"no such field":     {int64(1), bulk("role:master\r\n"), "granted 101, resent"},
		"WAIT is forbidden": {redis.Error("NOPERM wait"), intact, "granted 101, resent"},
		"INFO is forbidden": {int64(1), redis.Error("NOPERM info"), "granted 101, resent"},
	} {
		t.Run(what, func(t *testing.T) {
			s := &sealed{acknowledged: []any{c.acknowledged, int64(1)}, info: []any{c.info, intact}}
			withSeal(t, s, func(t *testing.T, r *runs) {
				log := new(leftCount)
				r.pipe.cfg.Log = log
				r.start("A1")
				testkit.Pass(1500 * time.Millisecond)
				testkit.Equal(t, log.left == 1, strings.HasSuffix(c.want, "resent") && what != "WAIT is forbidden", what+": the log says that the connection was left")
				testkit.Equal(t, r.outcomes(t), c.want, what)
				testkit.Equal(t, r.conns == 1, c.want == "granted 101", what+": one connection")
				testkit.Equal(t, r.footprints["1"].NothingThere(), false, what+": nothing is there")
			})
		})
	}
}

// What a connection has said before its writes failed counts only with its seal, too.
func TestASealOverAConnectionThatBreaks(t *testing.T) {
	c := NewConn(&scriptedConn{err: errHungUp}, "run", scripts.Process{}, maxLease)
	c.Seal = Seal{Replicas: 1, History: "h"}
	replies := []any{int64(0), int64(0), intact}
	err := c.readSeal(func() (reply any, _ error) { reply, replies = replies[0], replies[1:]; return reply, nil })
	testkit.Is(t, err, redisconn.ErrNotReplicated, "what it said")
}

// A renewal needs a seal, and a release does not: its reply is handed out before that of the seal.
func TestAReleaseNeedsNoSeal(t *testing.T) {
	s := &sealed{acknowledged: []any{errSilence}, info: []any{errSilence}}
	withSeal(t, s, func(t *testing.T, r *runs) {
		r.start("X4 R1")
		testkit.Equal(t, r.outcomes(t), "none; found 1, heard 0", "the renewal and the release")
		testkit.Pass(time.Second)
		testkit.Equal(t, r.outcomes(t), "renew: timed out after 1s", "the renewal")
	})
	withSeal(t, s, func(t *testing.T, r *runs) {
		r.start("R1")
		testkit.Equal(t, r.outcomes(t), "found 1, heard 0", "a release alone")
		testkit.Equal(t, r.commands(), "release k1", "sent")
	})
}

// A seal is of the calls that were written before it, not of those that the same read finds behind it.
func TestEachWriteHasItsSeal(t *testing.T) {
	s := &sealed{acknowledged: []any{int64(1), int64(0)}, info: []any{during{"A2", intact}, intact}} // before the first write is flushed
	withSeal(t, s, func(t *testing.T, r *runs) {
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "granted 101; acquire: not replicated: 0 of 1 replica acknowledged in time", "the outcomes")
		testkit.Equal(t, r.commands(), "acquire k1, PUBLISH, WAIT, INFO, acquire k2, PUBLISH, WAIT, INFO", "sent")
	})
}

// Calls that share a write share its seal, and each has its outcome.
func TestRunsShareASeal(t *testing.T) {
	withSeal(t, &sealed{acknowledged: []any{int64(1)}, info: []any{intact}}, func(t *testing.T, r *runs) {
		r.start("A1 A2 A3 X4")
		testkit.Equal(t, r.outcomes(t), "granted 101; granted 102; granted 103; found 0, heard 0", "the outcomes")
		testkit.Equal(t, r.commands(), "acquires 3, renew k4, PUBLISH, WAIT, INFO", "sent")
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "granted 101", "the next outcome")
		testkit.Equal(t, r.commands(), "acquire k1, PUBLISH, WAIT, INFO", "sent")
	})
}

// A request that is sent again, now in the midst of a write, has no seal behind it there.
func TestARequestThatIsResentEndsNoWrite(t *testing.T) {
	out := new(arranger).arrange([]request{{call: scripts.Look(), sealed: true}, {call: scripts.Look()}})
	testkit.Check(t, !out[0].sealed, "it ends a write")
}

// A server whose replicas acknowledged when the connection was made was a master: what refuses its first call is left, as
// after any other reply.
func TestAMasterThatIsNoneAtItsFirstCallIsLeft(t *testing.T) {
	s := &sealed{acknowledged: []any{int64(1)}, info: []any{intact}, grants: []any{readOnly, int64(1)}}
	withSeal(t, s, func(t *testing.T, r *runs) {
		sealed := r.made
		r.made = func(ctx context.Context, c *Conn) error {
			return errors.Join(sealed(ctx, c), c.CheckSeal(ctx, redisconn.ReadInfo(intact), time.Second))
		}
		r.start("A1")
		testkit.Equal(t, r.outcomes(t), "granted 101", "the outcome")
		testkit.Equal(t, r.conns, 2, "connections")
	})
}

// A replica with two links has one address, and would acknowledge for another one.
func TestAReplicaWithTwoLinksCountsOnce(t *testing.T) {
	const one, other, elsewhere = "slave0:ip=::1,port=7,state=online,offset=3,lag=0\r\n", "slave1:ip=::1,port=7,state=online,offset=2,lag=1\r\n",
		"slave1:ip=::1,port=8,state=online,offset=3,lag=0\r\n"
	master := string(replication("master", 2, "h")) + "slave_repl_offset:3\r\n"
	testkit.Equal(t, redisconn.ReadInfo([]byte(master+one+other)).TwoReplicasAt(), "[::1]:7", "two links of one")
	testkit.Equal(t, redisconn.ReadInfo([]byte(master+one+elsewhere)).TwoReplicasAt(), "", "one link of each")
}
