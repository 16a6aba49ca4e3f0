// Package scripts holds the Lua scripts that a lock runs on each of its masters, every one behind a typed call and a
// typed reply. It knows the keys and the wire format and nothing of connections.
//
// The wire format is Redisson's (https://github.com/redisson/redisson): a hash at the lock's name with one field, the
// owner, whose value is the level; the channel redisson_lock__channel:{NAME}, on which "0" is published when the lock
// becomes free. Keys of our own start with "quorumlock:".
package scripts

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
)

// Prefix starts every key that is ours: a lock's name must not.
const Prefix = "quorumlock:"

// MarkerKey is the hash that tells whose memory a database is (MarkerRun) and from when on the node may grant; MarkerMaxLease is its field for the
// deployment's max lease in ms. Only the scripts write it.
const (
	MarkerKey      = Prefix + "node"
	MarkerMaxLease = "max"
)

// MarkerRun is what a marker calls the process that remembers what the database granted: its run id, and with a database other
// than 0 its number, since SWAPDB puts another one's grants in its place, marker and all.
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

// CounterTTLMillis is how long, in ms, a name's token counter outlives its last use.
const CounterTTLMillis = 24 * 60 * 60 * 1000

// Script is one Lua script.
type Script struct {
	name   string
	source string
	sha    any // the SHA-1 in hex, boxed once
}

// Name returns the script's name for messages: "acquire", "renew".
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

// All returns every script, for loading them when a connection is made.
func All() []*Script {
	return []*Script{acquireScript, renewScript, releaseScript, raiseScript, inspectScript, forceScript, admitScript}
}

func newScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. It does not change once made, so that one Call may go to many nodes, and twice to one.
type Call struct {
	script *Script
	args   []any     // all that follows EVALSHA
	frees  bool      // it lets go of the lock
	batch  []Renewal // of renew
}

// Op names what the call does, for messages: the script's name.
func (c Call) Op() string { return c.script.name }

// IsAcquire tells a request for a grant.
func (c Call) IsAcquire() bool { return c.script == acquireScript }

// IsRelease tells a release, to whatever level: it must reach its node sooner or later.
func (c Call) IsRelease() bool { return c.script == releaseScript }

// Frees tells a release that lets go of the lock.
func (c Call) Frees() bool { return c.frees }

// Released returns whose release it is, and of what, for messages: the owner's id and the names. It is for releases only.
func (c Call) Released() (owner string, names []string) {
	keys := c.args[1].(int)
	for _, name := range c.args[3 : 2+keys] {
		names = append(names, name.(string))
	}
	return c.args[2+keys].(string), names
}

// ConnArgs are the arguments that only the connection over which a call goes can tell, boxed for sending.
type ConnArgs struct {
	Run       any // what the marker of that process's database calls it: for acquire and admit
	Tombstone any // how long, in ms, a release must bar its owner from a grant that arrives late; NoTombstone for not at all
}

// NoTombstone is for releases that cannot have been overtaken.
var NoTombstone any = "0"

// Command appends the command's arguments to dst, completed by those of the connection, and returns it with the command's name. With
// source, the script's text is sent in place of its hash.
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
