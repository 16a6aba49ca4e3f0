package node

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/plain"
	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// Refuse implements [inside.Server].
func (s *server) Refuse(info redisconn.Info) error {
	switch {
	case info["redis_mode"] == "sentinel":
		return fmt.Errorf("%w: it is a sentinel: a URL that asks it for the master is redis+sentinel://host:26379/NAME?failover=1", ErrInvalid)
	case s.opts.failover > 0 && info["master_replid"] == "":
		return fmt.Errorf("%w: INFO has no master_replid: a promotion would not show (WithFailover)", ErrInvalid)
	case info["run_id"] == "":
		return fmt.Errorf("%w: INFO has no run_id: the server cannot be identified", ErrInvalid)
	case info["role"] != "" && info["role"] != "master":
		return ErrReplica
	case info["redis_mode"] == "cluster":
		return fmt.Errorf("%w: a node of a cluster is not an independent master", ErrInvalid)
	case info.Evicts():
		return fmt.Errorf("%w: maxmemory is set and maxmemory-policy is %s, not noeviction", ErrEvicts, plain.Text(info["maxmemory_policy"]))
	}
	return nil
}
