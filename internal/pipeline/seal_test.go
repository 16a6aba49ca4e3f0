package pipeline_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// The seal of a server that has two replicas. The search in quorum/internal/lease is why.
func TestSeal(t *testing.T) {
	s := pipeline.Seal{Replicas: 2, History: "h"}
	says := func(role string, replicas int, history string) redisconn.Info {
		return redisconn.Info{"role": role, "connected_slaves": fmt.Sprint(replicas), "master_replid": history}
	}
	well := says("master", 2, "h")
	twice := maps.Clone(well)
	twice["slave0"], twice["slave1"] = "ip=a,port=1,state=online,offset=1,lag=0", "ip=a,port=1,state=online,offset=1,lag=1"
	for what, c := range map[string]struct {
		acknowledged int
		now          redisconn.Info
		want         string // of the error; empty for none
	}{
		"all have it":          {2, well, ""},
		"one has not":          {1, well, "not replicated: 1 of 2 replicas acknowledged in time"},
		"one has left":         {2, says("master", 1, "h"), "not replicated: the server has 1 replica, and the deployment wants 2"},
		"one has come":         {2, says("master", 3, "h"), "not replicated: the server has 3 replicas, and the deployment wants 2"},
		"it is a replica":      {2, says("slave", 2, "h"), "the server was a replica since the connection was made"},
		"it was promoted":      {2, says("master", 2, "i"), "the server was a replica since the connection was made"},
		"one has two links":    {2, twice, "not replicated: two replicas are at a:1, or one has two links"},
		"nobody has it, alone": {0, says("master", 0, "h"), "not replicated: the server has 0 replicas, and the deployment wants 2"},
	} {
		err := s.Broken(c.acknowledged, c.now)
		testkit.Check(t, err == nil && c.want == "" || err != nil && err.Error() == c.want, "%s: %v, want %q", what, err, c.want)
	}
	s.At = "10.0.0.1:6379"
	testkit.Equal(t, s.Broken(2, says("master", 1, "h")).Error(),
		"not replicated at 10.0.0.1:6379: the server has 1 replica, and the deployment wants 2", "with its address")
	testkit.Equal(t, fmt.Sprint(s.Commands(time.Second)), "[[PUBLISH quorumlock:seal ] [WAIT 2 1000] [INFO replication]]", "the seal")
	testkit.Equal(t, s.Run("r"), "r.h.2", "its run")
	testkit.Equal(t, pipeline.Seal{}.Run("r"), "r", "the run of a server without replicas")
	names := []scripts.Name{scripts.NewName("k")}
	for _, call := range []scripts.Call{scripts.Look(), scripts.Raise(names, scripts.NewOwner("o", 1), 1)} {
		testkit.Check(t, s.Covers(call) && !pipeline.Seal{}.Covers(call), "%s needs a seal", call.Op())
	}
	testkit.Check(t, !s.Covers(scripts.Release(names, scripts.NewOwner("o", 1), 0)), "a release needs none")
}
