package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Seal says when the calls of a connection count, to a server whose replicas may take its place. The server cannot say
// whether one has: nothing tells it, and it may have stood still. So all of its replicas must have acknowledged the
// calls: one that was promoted acknowledges nothing to its former master. The zero value is for a server without replicas.
type Seal struct {
	Replicas int    // how many the server has: all of the processes that may take its place
	History  string // the server's replication id when the connection was made: a promotion makes a new one
}

// Replication is what a server says of its replication, after the calls.
type Replication struct {
	Master   bool
	Replicas int    // that are attached
	History  string // the replication id
}

var (
	errNotReplicated = errors.New("not replicated")
	errAnotherReign  = errors.New("the server was a replica since the connection was made")
)

// Covers reports whether a call needs the seal: a release counts as it is.
func (s Seal) Covers(call scripts.Call) bool { return s.Replicas > 0 && !call.IsRelease() }

// sealChannel is where a seal publishes.
const sealChannel = scripts.Prefix + "seal"

// Commands returns the seal of the calls that were sent before: a message for the replicas, the wait for them, and the
// question what the server is now. Without the message, calls that happened to write nothing would count by old
// acknowledgments. Unlike a key, it needs no memory.
func (s Seal) Commands(wait time.Duration) [][]any {
	return [][]any{{"PUBLISH", sealChannel, ""}, {"WAIT", s.Replicas, wait.Milliseconds()}, {"INFO", "replication"}}
}

// Broken returns why calls do not count that were carried out before so many replicas acknowledged them, and before the
// server said that; nil if they do. They may have been carried out all the same.
func (s Seal) Broken(acknowledged int, now Replication) error {
	switch {
	case !now.Master || now.History != s.History:
		return errAnotherReign
	case now.Replicas != s.Replicas:
		return fmt.Errorf("%w: the server has %d replicas, and the deployment wants %d", errNotReplicated, now.Replicas, s.Replicas)
	case acknowledged < s.Replicas:
		return fmt.Errorf("%w: %d of %d replicas have acknowledged it in time", errNotReplicated, acknowledged, s.Replicas)
	}
	return nil
}

// Run returns what stands for the server in its marker, in place of its run id: a process that becomes a master again
// may have other data.
func (s Seal) Run(runID string) string {
	if s.Replicas == 0 {
		return runID
	}
	return fmt.Sprintf("%s.%s.%d", runID, s.History, s.Replicas)
}
