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
// library's own keys start with "quorumlock:". The channel redisson_lock__channel:{quorumlock:request:NAME}
// has requests to let go.
//
//	NAME                        hash: owner -> level, with the lease as its time to live; or, while readers
//	                            hold it, a sorted set: quorumlock:reader:OWNER -> the end of its lease
//	quorumlock:counter:NUMBER   the token counter of all names that hash to the number, 0 to 65535
//	quorumlock:released:OWNER   the tombstone: bars an owner that has released
//	quorumlock:writer:NAME      the reservation of a writer that waits for readers
//	quorumlock:forced:NAME      the bar of a forced release: keeps its readers from repairs
//	quorumlock:marker           the marker: which process granted what is held, and whom it accepts
//	quorumlock:locker:LOCKER    the process that a locker belongs to, for people to read
//	quorumlock:trial:ID         a lock by which a master is tried
//	quorumlock:slot:K:NAME      slot K of a semaphore: a hash, as at the name of a lock
//
// Each script states its keys, arguments and replies in its first lines.
package scripts

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Prefix starts the library's own keys. A lock's name must not start with it.
const Prefix = "quorumlock:"

// MarkerKey is the node's marker: see [Marker].
const MarkerKey = Prefix + "marker"

// MarkerRun returns a marker's name for a process and its database: the run id, and the number of
// a database other than 0. SWAPDB puts another database with its marker in place of this one: the
// number makes that visible.
func MarkerRun(runID string, database int) string { return runID + suffix(database) }

// MemberName returns what a master that has that name is called in lists, markers and errors: the name,
// and the number of a database other than 0. Clients that use other databases of a process have other data.
func MemberName(name string, database int) string { return name + suffix(database) }

func suffix(database int) string {
	if database == 0 {
		return ""
	}
	return "/" + strconv.Itoa(database)
}

const (
	counterPrefix = Prefix + "counter:"
	tombPrefix    = Prefix + "released:"
	writerPrefix  = Prefix + "writer:"
	forcedPrefix  = Prefix + "forced:"
	readerPrefix  = Prefix + "reader:"
	trialPrefix   = Prefix + "trial:"
	channelPrefix = "redisson_lock__channel:"
)

// Script is one Lua script.
type Script struct {
	name   string
	source string
	sha    any // the SHA-1 in hex, boxed once: digests.go
}

// Name returns the script's name: "acquire", "renew", ...
func (s *Script) Name() string { return s.name }

// SHA returns the SHA-1 of the text in hex, by which a server knows the script.
func (s *Script) SHA() any { return s.sha }

// Source returns the Lua text.
func (s *Script) Source() string { return s.source }

var (
	//go:embed shape.lua
	shapeSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed read.lua
	readSource string
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
	//go:embed lists.lua
	listsSource string
	//go:embed look.lua
	lookSource string
	//go:embed mark.lua
	markSource string
	//go:embed acquires.lua
	acquiresSource string
	//go:embed releases.lua
	releasesSource string
	//go:embed introduce.lua
	introduceSource string
	//go:embed who.lua
	whoSource string
	//go:embed slots.lua
	slotsSource string
	//go:embed ask.lua
	askSource string
	//go:embed survey.lua
	surveySource string
	//go:embed lockers.lua
	lockersSource string
	//go:embed counters.lua
	countersSource string
	//go:embed lift.lua
	liftSource string
)

// runPrefixes precedes acquires, which derives an owner from its tombstone's key, and the channel
// of a name that is held: for a slot, that of its semaphore.
var runPrefixes = "local ownerAt, channelPrefix = " + strconv.Itoa(len(tombPrefix)+1) + ", '" + channelPrefix + "'\n" +
	"local slotPattern, slotsPrefix = '^" + slotPrefix + "%d+:', '" + slotsPrefix + "'\n"

// readerLine and writerLine precede scripts that find readers, and the marks of writers that wait.
const (
	readerLine = "local readerPrefix = '" + readerPrefix + "'\n"
	writerLine = "local writerPrefix = '" + writerPrefix + "'\n"
)

// counterLines precede scripts that refuse a token counter: the parts of their errors, around its key.
const counterLines = `local ofCounter, isNoNumber = 'QUORUMLOCK the token counter "', '" is not a number'
local isTooHigh = '" has reached 2^52: no lock counts that far. Delete the key on this master'
`

// askLine precedes a script that leaves out the channels on which holders are asked to let go.
const askLine = "local askPattern = '^" + channelPrefix + "{?" + askPrefix + "'\n"

var (
	acquireScript = newScript("acquire", readerLine+writerLine+counterLines+shapeSource+listsSource+acquireSource)
	readScript    = newScript("read", readerLine+counterLines+shapeSource+listsSource+readSource)
	renewScript   = newScript("renew", readerLine+listsSource+renewSource)
	releaseScript = newScript("release", readerLine+releaseSource)
	raiseScript   = newScript("raise", readerLine+counterLines+raiseSource)
	inspectScript = newScript("inspect", readerLine+counterLines+shapeSource+inspectSource)
	forceScript   = newScript("force", readerLine+shapeSource+forceSource)
	lookScript    = newScript("look", lookSource)
	markScript    = newScript("mark", markSource)

	acquiresScript  = newScript("acquires", runPrefixes+acquiresSource)
	releasesScript  = newScript("releases", releasesSource)
	introduceScript = newScript("introduce", introduceSource)
	whoScript       = newScript("who", whoSource)
	slotsScript     = newScript("slots", slotsSource)
	askScript       = newScript("ask", askSource)
	surveyScript    = newScript("survey", readerLine+askLine+shapeSource+surveySource)
	lockersScript   = newScript("lockers", lockersSource)
	countersScript  = newScript("counters", countersSource)
	liftScript      = newScript("lift", counterLines+liftSource)
)

// All returns every script of a client that locks.
func All() []*Script {
	return []*Script{acquireScript, readScript, renewScript, releaseScript, raiseScript, inspectScript, forceScript,
		lookScript, markScript, acquiresScript, releasesScript, introduceScript, whoScript, slotsScript, askScript}
}

// OfOperators returns the scripts that the command sends, and a client that locks does not.
func OfOperators() []*Script {
	return []*Script{surveyScript, lockersScript, countersScript, liftScript}
}

var (
	calledCommand = regexp.MustCompile(`call\(([^,)]*)`)
	commandWord   = regexp.MustCompile(`'([A-Z]+)'`)
)

// CommandsAt returns the commands that a script calls in a line of its text, for errors that do not name them: those
// that may be meant.
func CommandsAt(sha string, line int) (commands []string) {
	for _, s := range slices.Concat(All(), OfOperators()) {
		lines := strings.Split(s.source, "\n")
		if s.sha != any(sha) || line < 1 || line > len(lines) {
			continue
		}
		for _, call := range calledCommand.FindAllString(lines[line-1], -1) {
			for _, word := range commandWord.FindAllStringSubmatch(call, -1) {
				commands = append(commands, word[1])
			}
		}
	}
	return commands
}

func newScript(name, source string) *Script {
	return &Script{name: name, source: source, sha: digests[name]}
}
