package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

// serverInfo answers INFO for one life of an embedded master, with the fields that the library
// reads: version, run id, uptime, eviction, persistence, role.
type serverInfo struct {
	port    int
	runID   string
	replID  string
	started time.Time
}

func newServerInfo(port int) serverInfo {
	return serverInfo{port: port, runID: randomID(), replID: randomID(), started: time.Now()}
}

// randomID returns 40 random hex digits, as a Redis run id has.
func randomID() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails: it ends the program instead
	return hex.EncodeToString(id)
}

// text returns all sections, in Redis' order, whichever are asked for.
func (i serverInfo) text() string {
	return strings.Join([]string{
		"# Server",
		"redis_version:7.0.0-miniredis",
		"redis_mode:standalone",
		fmt.Sprintf("process_id:%d", os.Getpid()),
		"run_id:" + i.runID,
		fmt.Sprintf("tcp_port:%d", i.port),
		fmt.Sprintf("uptime_in_seconds:%d", int(time.Since(i.started).Seconds())),
		"",
		"# Memory",
		"maxmemory:0",
		"maxmemory_policy:noeviction",
		"",
		"# Persistence",
		"loading:0",
		"async_loading:0",
		"rdb_last_save_time:0",
		"aof_enabled:0",
		"",
		"# Replication",
		"role:master",
		"connected_slaves:0",
		"master_replid:" + i.replID,
		"master_repl_offset:0",
		"",
	}, "\r\n")
}
