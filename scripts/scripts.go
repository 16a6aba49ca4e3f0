// Package scripts holds the Lua scripts that a lock runs on each of its masters, each behind a
// typed call and a typed reply. It knows the keys and the wire format, and no connections.
//
// It is no API: a program that locks does not import it, and its names may change in any release.
// The wire format may not change, because clients of several versions, and Redisson's clients,
// share the masters.
//
// The wire format is Redisson's (https://github.com/redisson/redisson): a hash at the lock's name
// with one field, the owner, whose value is the level; and the channel
// redisson_lock__channel:{NAME}, on which a release publishes "0" when the lock becomes free. The
// library's own keys start with "quorumlock:".
//
//	NAME                        hash: owner -> level, with the lease as its time to live
//	quorumlock:token:NAME       the token counter
//	quorumlock:released:OWNER   the tombstone: bars an owner that has released
//	quorumlock:node             the marker: which process granted what the database holds
//
// Each script states its keys, arguments and replies in its first lines.
package scripts

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
)

// Prefix starts the library's own keys. A lock's name must not start with it.
const Prefix = "quorumlock:"

const (
	// MarkerKey is the node's marker: a hash that says which process granted what the database
	// holds ([MarkerRun]), and from when on the node may grant. Only the scripts write it.
	MarkerKey = Prefix + "node"
	// MarkerMaxLease is the marker's field for the deployment's max lease, in ms.
	MarkerMaxLease = "max"
)

// MarkerRun returns the marker's name for a process and its database: the run id, and the number of
// a database other than 0. SWAPDB puts another database with its marker in place of this one: the
// number makes that visible.
func MarkerRun(runID string, database int) string {
	if database == 0 {
		return runID
	}
	return runID + "/" + strconv.Itoa(database)
}

const (
	tokenPrefix   = Prefix + "token:"
	tombPrefix    = Prefix + "released:"
	channelPrefix = "redisson_lock__channel:"
)

// CounterTTLMillis is for how long, in ms, a token counter outlives its last use.
const CounterTTLMillis = 24 * 60 * 60 * 1000

// Script is one Lua script.
type Script struct {
	name   string
	source string
	sha    any // the SHA-1 in hex, boxed once
}

// Name returns the script's name: "acquire", "renew", ...
func (s *Script) Name() string { return s.name }

// Source returns the Lua text, for SCRIPT LOAD.
func (s *Script) Source() string { return s.source }

var (
	//go:embed shape.lua
	shapeSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed raise.lua
	raiseSource string
	//go:embed inspect.lua
	inspectSource string
	//go:embed force.lua
	forceSource string
	//go:embed admit.lua
	admitSource string
)

var (
	acquireScript = newScript("acquire", shapeSource+acquireSource)
	renewScript   = newScript("renew", renewSource)
	releaseScript = newScript("release", releaseSource)
	raiseScript   = newScript("raise", raiseSource)
	inspectScript = newScript("inspect", shapeSource+inspectSource)
	forceScript   = newScript("force", shapeSource+forceSource)
	admitScript   = newScript("admit", admitSource)
)

// All returns every script, to be loaded when a connection is made.
func All() []*Script {
	return []*Script{acquireScript, renewScript, releaseScript, raiseScript, inspectScript, forceScript, admitScript}
}

func newScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. It is immutable: one Call may go to many nodes, and be resent.
type Call struct {
	script *Script
	args   []any     // the arguments of EVALSHA
	frees  bool      // a release to level 0
	batch  []Renewal // of renew
}

// Op returns the script's name, for errors.
func (c Call) Op() string { return c.script.name }

// IsAcquire reports whether the call is a request for a grant.
func (c Call) IsAcquire() bool { return c.script == acquireScript }

// IsRelease reports whether the call is a release, to any level. A release must reach its node.
func (c Call) IsRelease() bool { return c.script == releaseScript }

// Frees reports whether the call is a release to level 0, which ends the owner's hold.
func (c Call) Frees() bool { return c.frees }

// Released returns the owner's id and the names of a release, for the log. The call must be a
// release.
func (c Call) Released() (owner string, names []string) {
	keys := c.args[1].(int)
	for _, name := range c.args[3 : 2+keys] {
		names = append(names, name.(string))
	}
	return c.args[2+keys].(string), names
}

// ConnArgs are the arguments of a call that depend on its connection, boxed for sending.
type ConnArgs struct {
	Run       any // for acquire and admit: [MarkerRun] of the connection's process and database
	Tombstone any // for release: for how long, in ms, it bars its owner from a grant that arrives late; or NoTombstone
}

// NoTombstone is the Tombstone of a release whose owner has no request that may arrive late.
var NoTombstone any = "0"

// Command returns the command's name, and dst with the command's arguments appended. With source,
// the command carries the script's text in place of its hash.
func (c Call) Command(dst []any, source bool, conn ConnArgs) (string, []any) {
	start := len(dst)
	dst = append(dst, c.args...)
	switch c.script {
	case acquireScript, admitScript:
		dst[len(dst)-1] = conn.Run
	case releaseScript:
		dst[len(dst)-1] = conn.Tombstone
	}
	if source {
		dst[start] = c.script.source
		return "EVAL", dst
	}
	return "EVALSHA", dst
}
