package node

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/plain"
)

// info holds the fields of INFO that concern a lock.
type info struct {
	runID, version, role string
	uptime               time.Duration
	maxMemory            uint64
	policy               string
	replicas             int
	aof                  bool
	clustered            bool
}

// read takes the fields of a reply to INFO. All sections are asked for at once: servers before Redis 7
// take only one name.
func (f *info) read(reply any) {
	text, _ := reply.([]byte)
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		number, _ := strconv.ParseUint(value, 10, 63)
		switch key {
		case "run_id":
			f.runID = value
		case "redis_version":
			if f.version == "" {
				f.version = plain.Text(value)
			}
		case "valkey_version":
			f.version = "valkey " + plain.Text(value)
		case "redis_mode":
			f.clustered = value == "cluster"
		case "uptime_in_seconds":
			f.uptime = time.Duration(number) * time.Second
		case "role":
			f.role = plain.Text(value)
		case "connected_slaves":
			f.replicas = int(number)
		case "maxmemory":
			f.maxMemory = number
		case "maxmemory_policy":
			f.policy = plain.Text(value)
		case "aof_enabled":
			f.aof = value == "1"
		}
	}
}

// refuse returns why the server must not be a node, or nil.
func (f *info) refuse() error {
	switch {
	case f.runID == "":
		return fmt.Errorf("%w: INFO has no run_id: the server cannot be identified", ErrInvalid)
	case f.role != "" && f.role != "master":
		return ErrReplica
	case f.clustered:
		return fmt.Errorf("%w: a node of a cluster is not an independent master", ErrInvalid)
	case f.evicts():
		return fmt.Errorf("%w: maxmemory is set and maxmemory-policy is %s, not noeviction", ErrEvicts, f.policy)
	}
	return nil
}

func (f *info) evicts() bool {
	return f.maxMemory > 0 && f.policy != "" && f.policy != "noeviction"
}
