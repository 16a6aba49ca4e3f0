package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	refusal      error // the reply to the first acquire, if there is one
	sent         func(command string)
}

func replication(role string, replicas int, history string) []byte {
	return fmt.Appendf(nil, "# Replication\r\nrole:%s\r\nconnected_slaves:%d\r\nmaster_replid:%s\r\n", role, replicas, history)
}

func (s *sealed) reply(command string) any {
	if s.sent != nil {
		s.sent(command)
	}
	first := func(of *[]any) any {
		reply := (*of)[0]
		if len(*of) > 1 {
			*of = (*of)[1:]
		}
		return reply
	}
	switch command {
	case "PUBLISH":
		return int64(0)
	case "WAIT":
		return first(&s.acknowledged)
	case "INFO":
		return first(&s.info)
	case "acquire k1":
		if refusal := s.refusal; refusal != nil {
			s.refusal = nil
			return refusal
		}
	case "renew k1":
		return bulk("R")
	}
	return int64(1)
}

// withSeal runs a test on a pipe to a server that should have one replica, and the history h.
func withSeal(t *testing.T, s *sealed, test func(t *testing.T, r *runs)) {
	withRuns(t, s.reply, func(t *testing.T, r *runs) {
		r.made = func(_ context.Context, c *Conn) error { c.Seal = Seal{Replicas: 1, History: "h"}; return nil }
		r.started = sync.OnceFunc(func() { close(r.gate) }) // what is started together is written together
		test(t, r)
	})
}

var (
	intact     = replication("master", 1, "h")
	sealOfCall = []string{"PUBLISH", "WAIT", "INFO"}
)

func renewal() scripts.Call {
	return scripts.Renew(ours, scripts.ToMillis(maxLease), []scripts.Renewal{{Names: testkit.Names("k1"), Owner: scripts.OwnerOf("o:9"), Token: 1}})
}

// A call counts with its seal: else its outcome is unknown, and the connection ends.
func TestACallCountsWithItsSeal(t *testing.T) {
	for what, c := range map[string]struct {
		acknowledged, info any
		want               string
	}{
		"acknowledged":      {int64(1), intact, "granted 101"},
		"not acknowledged":  {int64(0), intact, "acquire: not replicated: 0 of 1 replica acknowledged in time"},
		"nobody there":      {int64(0), replication("master", 0, "h"), "acquire: not replicated: the server has 0 replicas, and the deployment wants 1"},
		"one too many":      {int64(2), replication("master", 2, "h"), "acquire: not replicated: the server has 2 replicas, and the deployment wants 1"},
		"a replica":         {redis.Error("ERR WAIT cannot be used with replica instances."), replication("slave", 1, "h"), "granted 101, resent"},
		"promoted":          {int64(1), replication("master", 1, "i"), "granted 101, resent"},
		"no reply to WAIT":  {errSilence, errSilence, "acquire: timed out after 1s"},
		"no reply to INFO":  {int64(1), errSilence, "acquire: timed out after 1s"},
		"no such field":     {int64(1), bulk("role:master\r\n"), "granted 101, resent"},
		"WAIT is forbidden": {redis.Error("NOPERM wait"), intact, "granted 101, resent"},
		"INFO is forbidden": {int64(1), redis.Error("NOPERM info"), "granted 101, resent"},
	} {
		t.Run(what, func(t *testing.T) {
			s := &sealed{acknowledged: []any{c.acknowledged, int64(1)}, info: []any{c.info, intact}}
			withSeal(t, s, func(t *testing.T, r *runs) {
				footprints, results := r.start(threeAcquires()[0])
				testkit.Pass(1500 * time.Millisecond)
				wantList(t, what, outcomes(t, results), c.want)
				testkit.Equal(t, r.conns == 1, c.want == "granted 101", what+": one connection")
				testkit.Equal(t, footprints[0].NothingThere(), false, what+": nothing is there")
			})
		})
	}
}

// A renewal needs a seal, and a release does not: its reply is handed out before that of the seal.
func TestAReleaseNeedsNoSeal(t *testing.T) {
	s := &sealed{acknowledged: []any{errSilence}, info: []any{errSilence}}
	withSeal(t, s, func(t *testing.T, r *runs) {
		_, results := r.start(renewal(), threeReleases()[0])
		wantList(t, "the release", outcomes(t, results[1:]), "found 1, heard 0")
		testkit.Equal(t, len(results[0]), 0, "outcomes of the renewal")
		testkit.Pass(time.Second)
		wantList(t, "the renewal", outcomes(t, results[:1]), "renew: timed out after 1s")
	})
	withSeal(t, s, func(t *testing.T, r *runs) {
		_, results := r.start(threeReleases()[0])
		wantList(t, "a release alone", outcomes(t, results), "found 1, heard 0")
		wantList(t, "sent", r.commands(), "release k1")
	})
}

// A seal is of the calls that were written before it, not of those that the same read finds behind it.
func TestEachWriteHasItsSeal(t *testing.T) {
	s := &sealed{acknowledged: []any{int64(1), int64(0)}, info: []any{intact}}
	withSeal(t, s, func(t *testing.T, r *runs) {
		second := make(resultChan, 2)
		s.sent = func(command string) {
			if command == "INFO" { // before the first write is flushed
				s.sent = nil
				testkit.Must(t, r.pipe.Start(threeAcquires()[1], new(Footprint), second))
			}
		}
		_, results := r.start(threeAcquires()[0])
		wantList(t, "the first, and the second", outcomes(t, append(results, second)), "granted 101",
			"acquire: not replicated: 0 of 1 replica acknowledged in time")
		wantList(t, "sent", r.commands(), "acquire k1", "PUBLISH", "WAIT", "INFO", "acquire k2", "PUBLISH", "WAIT", "INFO")
	})
}

// Calls that share a write share its seal, and each has its outcome.
func TestRunsShareASeal(t *testing.T) {
	s := &sealed{acknowledged: []any{int64(1)}, info: []any{intact}}
	withSeal(t, s, func(t *testing.T, r *runs) {
		_, results := r.start(append(threeAcquires(), renewal())...)
		wantList(t, "the outcomes", outcomes(t, results), "granted 101", "granted 102", "granted 103", "found 0, heard 0")
		wantList(t, "sent", r.commands(), append([]string{"acquires 3", "renew k1"}, sealOfCall...)...)
		_, results = r.start(threeAcquires()[0])
		wantList(t, "the next outcome", outcomes(t, results), "granted 101")
		wantList(t, "sent", r.commands(), append([]string{"acquire k1"}, sealOfCall...)...)
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
	s := &sealed{acknowledged: []any{int64(1)}, info: []any{intact}, refusal: readOnly}
	withSeal(t, s, func(t *testing.T, r *runs) {
		sealed := r.made
		r.made = func(ctx context.Context, c *Conn) error {
			return errors.Join(sealed(ctx, c), c.CheckSeal(ctx, redisconn.ReadInfo(intact), time.Second))
		}
		_, results := r.start(threeAcquires()[0])
		wantList(t, "the outcome", outcomes(t, results), "granted 101")
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
