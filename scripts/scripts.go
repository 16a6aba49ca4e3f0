// Package scripts holds the Lua scripts that a lock runs on each of its masters, each with a typed call and a typed
// reply. It knows the keys and the wire format, and no connections. It is not an API: programs that lock do not
// import it, and its names may change in any release. The wire format may not change, because clients of several
// versions, and Redisson's clients, share the masters.
//
// The wire format is Redisson's (https://github.com/redisson/redisson): a hash at the lock's name
// with one field, the owner, whose value is the depth; and the channel
// redisson_lock__channel:{NAME}, on which a release publishes "0" when the lock becomes free. The
// library's own keys start with "quorumlock:".
//
//	NAME                        hash: owner -> depth, with the lease as its time to live; or, while readers
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
// With a prefix, PREFIX: precedes these keys and the channels, and the hash is at PREFIX:quorumlock:lock:NAME.
//
// Each script states its keys, arguments and replies in its first lines.
package scripts

import (
	"embed"
	"regexp"
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

// MemberName returns the name of a master in lists, markers and errors: its canonical name, the number of a
// database other than 0, and the prefix. Clients that use another database of a process, or another prefix, have other
// data.
func MemberName(name string, database int, prefix string) string {
	if prefix != "" {
		prefix = prefixSign + prefix
	}
	return Canonical(name) + suffix(database) + prefix
}

func suffix(database int) string {
	if database == 0 {
		return ""
	}
	return "/" + strconv.Itoa(database)
}

const (
	// CounterPrefix starts the keys of the token counters.
	CounterPrefix = Prefix + "counter:"
	// ChannelPrefix starts the channels on which releases are published, as Redisson's do.
	ChannelPrefix = "redisson_lock__channel:"

	tombPrefix   = Prefix + "released:"
	writerPrefix = Prefix + "writer:"
	forcedPrefix = Prefix + "forced:"
	readerPrefix = Prefix + "reader:"
	trialPrefix  = Prefix + "trial:"
)

// Script is one Lua script.
type Script struct {
	name   string
	source string
	sha    any // the SHA-1 in hex, boxed once
	parse  func(v any, keys int) (any, bool)
}

// Name returns the script's name: "acquire", "renew", ...
func (s *Script) Name() string { return s.name }

// SHA returns the SHA-1 of the text in hex, by which a server knows the script.
func (s *Script) SHA() any { return s.sha }

// Source returns the Lua text.
func (s *Script) Source() string { return s.source }

// command makes a command of args[start:], which are EVALSHA's: with that prefix, and perhaps with the text in place of
// the hash. It returns the command's name and all of args.
func (s *Script) command(args []any, start int, source bool, prefix string) (string, []any) {
	withPrefix(prefix, args[start:])
	if source {
		args[start] = s.source
		return "EVAL", args
	}
	return "EVALSHA", args
}

//go:embed *.lua
var lua embed.FS

func source(name string) string {
	text, _ := lua.ReadFile(name + ".lua")
	return string(text)
}

var shape = source("shape")

// Shape defines a lock for the scripts that follow it.
var Shape = readerLine + shape

// keyLines precede scripts that derive an owner from its tombstone's key, whose prefix the marker's key has too, and the
// channel of a name that is held (names.lua).
var keyLines = "local ownerAt, channelPrefix = " + strconv.Itoa(len(tombPrefix)-len(MarkerKey)+1) + ", '" + ChannelPrefix + "'\n" +
	"local slotPattern, slotsPrefix = '^" + slotPrefix + "%d+:', '" + slotsPrefix + "'\n"

// readerLine and writerLine precede scripts that find readers, and the marks of writers that wait.
const (
	readerLine = "local readerPrefix = '" + readerPrefix + "'\n"
	writerLine = "local writerPrefix = '" + writerPrefix + "'\n"
)

// CounterLines precede scripts that refuse a token counter: the parts of their errors, around its key.
const CounterLines = `local ofCounter, isNoNumber = 'QUORUMLOCK the token counter "', '" is not a number'
local isTooHigh = '" has reached 2^52: no lock counts that far. Delete the key on this master'
`

var (
	acquireScript = newScript("acquire", "852ad98135a0e297f05000fe68840b9b175829f0", keyLines+source("usual")+source("names")+readerLine+writerLine+CounterLines+shape+source("lists"))
	readScript    = newScript("read", "f53c44f4e49911e1ca8034e0e64b3194013678e9", keyLines+source("names")+readerLine+CounterLines+shape+source("lists"))
	renewScript   = newScript("renew", "8da3b623fa38f03e3129d5111b5a22ecd92d8ce1", readerLine+source("lists"))
	releaseScript = newScript("release", "76e8969a96bb3b685de9acf673b19699efa50c78", readerLine)
	raiseScript   = newScript("raise", "2eb12299772c7e6c9cc7c531707c68c40ab1c5c3", readerLine+CounterLines)
	lookScript    = newScript("look", "35810dfc0682ca9088444eb9ce5bbecc6f6147ea", "")
	markScript    = newScript("mark", "4cdc3d6e44d2282111dafe41bb710a00fca65474", "")

	acquiresScript  = newScript("acquires", "e82f9851f962f1784ffe5872fc727dc0242e00ab", keyLines+source("names"))
	releasesScript  = newScript("releases", "53602cb3a6bd8d4adf0cadc2395c3c54ded08db3", "")
	introduceScript = newScript("introduce", "c78f9c274763f11f151bb216b735416dddd17917", "")
	whoScript       = newScript("who", "d65c190dc66aa9918490566eb86cbbaf6905d5f2", "")
)

// All returns every script of the program: of a client that locks, and those of other packages that it has.
func All() []*Script { return known }

// newScript returns the script in that file, with its prelude. The SHA-1 is written down, because a program that
// imports this package may run where Go forbids SHA-1 (GODEBUG=fips140=only). TestDigests prints the right one after
// a change.
func newScript(name, sha, before string) *Script { return New(name, sha, before+source(name), nil) }

// New returns a script of another package. parse reads, for [Reply.Other], a reply to a call with that many keys; ok is
// false if it is malformed.
func New(name, sha, source string, parse func(v any, keys int) (other any, ok bool)) *Script {
	s := &Script{name, source, sha, parse}
	known = append(known, s)
	return s
}

var known []*Script

var (
	calledCommand = regexp.MustCompile(`call\(([^,)]*)`)
	commandWord   = regexp.MustCompile(`'([A-Z]+)'`)
)

// CommandsAt returns the commands that a script calls in a line of its text: an error that does not name its command
// may mean any of them.
func CommandsAt(sha string, line int) (commands []string) {
	for _, s := range known {
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
