package scripts

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrReply: none of the library's scripts sends such a reply. The server is broken or hostile. The reply never counts
// as a grant.
var ErrReply = errors.New("scripts: malformed reply")

// MaxToken bounds tokens. They begin from a clock in microseconds, which reaches 2^52 in the year
// 2112: a higher number is another program's, or a hostile server's, and would be written back to
// the other nodes. Lua counts exactly up to 2^53.
const MaxToken = 1<<52 - 1

// Outcome is what a node answers to a request for a grant.
type Outcome int

const (
	// Granted: the owner holds every name on this node.
	Granted Outcome = iota + 1
	// HeldByAnother: another owner holds one of the names, or a waiting writer keeps this reader back.
	HeldByAnother
	// Quarantined: the node may have forgotten grants, and grants nothing for a while.
	Quarantined
	// NotAccepted: the node's marker does not accept this client.
	NotAccepted
	// Barred: this owner has released already; nothing was granted.
	Barred
	// Passed: the name is free: the predecessor from which this owner takes over is not there.
	Passed
)

// Reply is a node's reply to one call. Only the field of the call's script is set.
type Reply struct {
	Acquire AcquireReply
	Renew   []Renewed // one for each lock of the batch
	Release ReleaseReply
	Raise   uint64 // the highest of the counters; 0 if the owner does not hold every name
	Look    *Seen
	Mark    *MarkReply
	Who     []Identity // in the order of the call's lockers
	Other   any        // of a script of another package
	// NotAccepted is set if a grant or a renewal was refused because the node's marker does not accept the client.
	NotAccepted *Seen
}

// Quarantine returns how long the node grants nothing new, according to its reply to a request for a grant, a look or
// a mark; 0 for other replies. Another client may have begun the quarantine.
func (r Reply) Quarantine() time.Duration {
	if r.Acquire.Outcome == Quarantined {
		return r.Acquire.Wait
	}
	if r.Mark != nil {
		m, _ := ParseMarker(r.Mark.Marker) // an unreadable marker has no quarantine
		return m.Quarantine(r.Mark.Now)
	}
	if r.Look != nil {
		if m, _ := ParseMarker(r.Look.Marker); m.Run == r.Look.Process.Run {
			return m.Quarantine(r.Look.Now)
		}
	}
	return 0
}

// ShowsMarker returns the marker that the reply shows, if it shows one, and whether the marker names the process that
// was asked.
func (r Reply) ShowsMarker() (m Marker, shows, isOwn bool) {
	if seen := cmp.Or(r.NotAccepted, r.Look); seen != nil {
		m, err := ParseMarker(seen.Marker)
		return m, err == nil, m.Run == seen.Process.Run
	}
	if r.Mark != nil && r.Mark.Written {
		m, err := ParseMarker(r.Mark.Marker)
		return m, err == nil, true
	}
	return m, false, false
}

// Parse reads the reply to the call; errors wrap ErrReply.
func (c Call) Parse(v any) (reply Reply, err error) {
	ok := false
	switch c.script {
	case acquireScript, readScript:
		if reply.Acquire, reply.NotAccepted, ok = parseAcquire(v); reply.Acquire.Token == 1 && c.hasShortForm() {
			reply.Acquire.Token = uint64(c.args[acquireSeed].(int64))
		}
	case renewScript:
		reply.Renew, reply.NotAccepted, ok = parseRenew(v, c.batch)
	case releaseScript:
		reply.Release, ok = parseRelease(v, c.args[1].(int)-1)
	case raiseScript:
		var highest int64
		highest, ok = number(v, 0, MaxToken)
		reply.Raise = uint64(highest)
	case lookScript:
		reply.Look, ok = parseLook(v)
	case markScript:
		reply.Mark, ok = parseMark(v)
	case introduceScript:
		_, ok = number(v, 1, 1)
	case whoScript:
		reply.Who, ok = parseWho(v, c.args[1].(int))
	default:
		reply.Other, ok = c.script.parse(v, c.args[1].(int))
	}
	if !ok {
		return Reply{}, malformed(c.script, v)
	}
	return reply, nil
}

// AcquireReply is the reply to Acquire.
type AcquireReply struct {
	Outcome Outcome
	Token   uint64 // of a grant
	// Wait is, with HeldByAnother, the longest time to live, −1 for a key without one, or the time of the
	// reservation; with Quarantined, the remaining quarantine.
	Wait time.Duration
	// Waiting is, with HeldByAnother, how many connections subscribe to the first name's channel; 0 if the user may
	// not ask.
	Waiting int
	Holder  string // with HeldByAnother: the owner at the first held name; empty if only a waiting writer is in a reader's way
	Readers int    // with HeldByAnother, if only readers are there: their number at the name with the most
}

// parseAcquire also returns the refusal if the node's marker does not accept the client.
func parseAcquire(v any) (r AcquireReply, refusal *Seen, ok bool) {
	if token, granted := v.(int64); granted {
		return AcquireReply{Outcome: Granted, Token: uint64(token)}, nil, token >= 1 && token <= MaxToken
	}
	f := FieldsOf(v)
	word, _ := f.Next().([]byte)
	switch string(word) {
	case "held":
		r = AcquireReply{Outcome: HeldByAnother, Wait: f.TTL(), Waiting: f.Number(0, 1<<31), Holder: f.Text()}
		if f.More() {
			r.Readers = f.Number(1, 1<<31)
		}
	case "reserved": // a writer keeps the reader back
		r = AcquireReply{Outcome: HeldByAnother, Wait: f.TTL(), Waiting: f.Number(0, 1<<31)}
	case "marker":
		r, refusal = AcquireReply{Outcome: NotAccepted}, f.refusal()
	case "quarantined":
		r = AcquireReply{Outcome: Quarantined, Wait: f.Duration()}
	case "released":
		r = AcquireReply{Outcome: Barred, Wait: f.Duration()}
	case "passed":
		r = AcquireReply{Outcome: Passed, Wait: f.Duration()}
	default:
		return r, nil, false
	}
	return r, refusal, f.End() && len(r.Holder) <= 1024
}

// Renewed is a node's answer for one lock in a batch.
type Renewed byte

const (
	// Kept: the owner is there and its time to live was raised.
	Kept Renewed = 'R'
	// Gone: there is no key.
	Gone Renewed = 'G'
	// Taken: the key is another owner's, or no lock.
	Taken Renewed = 'T'
	// NotRenewed: the owner is there, but the node's marker does not accept this client.
	NotRenewed Renewed = 'N'
	// NotRaised: the owner is there, but the node refuses to raise the lease of a reader.
	NotRaised Renewed = 'F'
)

// severity has the outcomes of one name of a lock, the mildest first: Kept, NotRenewed, NotRaised, Gone, Taken. The
// lock's is the worst: a node keeps it only if it keeps every name.
const severity = "RNFGT"

// parseRenew returns one outcome for each lock of the batch, and the refusal if the node's marker does not accept the
// client.
func parseRenew(v any, batch []Renewal) (out []Renewed, refusal *Seen, ok bool) {
	if f := FieldsOf(v); len(f.left) == 4 {
		word, _ := f.Next().([]byte)
		if refusal = f.refusal(); f.bad || string(word) != "marker" {
			return nil, nil, false
		}
		v = f.Next()
	}
	letters, ok := v.([]byte)
	out = make([]Renewed, len(batch))
	for i, r := range batch {
		if len(letters) < len(r.Names) {
			return nil, nil, false
		}
		worst := 0
		for _, letter := range letters[:len(r.Names)] {
			rank := strings.IndexByte(severity, letter)
			if rank < 0 || Renewed(letter) == NotRenewed && refusal == nil {
				return nil, nil, false
			}
			worst = max(worst, rank)
		}
		out[i], letters = Renewed(severity[worst]), letters[len(r.Names):]
	}
	return out, refusal, ok && len(letters) == 0
}

// ReleaseReply is the reply to Release.
type ReleaseReply struct {
	Found int // the number of names at which the owner was found
	// Heard is how many connections received the message that a name became free, the largest number with several
	// names; −1 if the user may not publish.
	Heard int
}

func parseRelease(v any, names int) (r ReleaseReply, ok bool) {
	if found, ok := number(v, 0, int64(names)); ok {
		return ReleaseReply{Found: int(found)}, true
	}
	f := FieldsOf(v)
	r = ReleaseReply{Found: f.Number(1, int64(names)), Heard: f.Number(-1, 1<<31)}
	return r, f.End() && r.Heard != 0
}

// Fields reads the fields of a reply, one after the other. The results count only if all fields have the expected
// kinds and bounds, and there are no others: see End.
type Fields struct {
	left []any
	bad  bool
}

// FieldsOf returns the fields of a reply.
func FieldsOf(v any) Fields {
	left, ok := v.([]any)
	return Fields{left, !ok}
}

// End reports whether the reply had exactly the fields that were read.
func (f *Fields) End() bool { return !f.bad && !f.More() }

// More reports whether there is another field.
func (f *Fields) More() bool { return len(f.left) > 0 }

// Next reads a field of any kind.
func (f *Fields) Next() (v any) {
	if !f.More() {
		f.bad = true
		return nil
	}
	v, f.left = f.left[0], f.left[1:]
	return v
}

// Text reads a text.
func (f *Fields) Text() string {
	b, ok := f.Next().([]byte)
	f.bad = f.bad || !ok
	return string(b)
}

// Number reads a number within bounds.
func (f *Fields) Number(least, most int64) int { return int(f.number(least, most)) }

func (f *Fields) number(least, most int64) int64 {
	n, ok := number(f.Next(), least, most)
	f.bad = f.bad || !ok
	return n
}

// Duration reads milliseconds. It refuses what a time.Duration cannot hold.
func (f *Fields) Duration() time.Duration {
	return time.Duration(f.number(0, maxMillis)) * time.Millisecond
}

// TTL reads a time to live: −1 for a key without one, and for another program's key that lives longer than a
// time.Duration tells.
func (f *Fields) TTL() time.Duration {
	ms := f.number(-1, math.MaxInt64)
	if ms < 0 || ms > maxMillis {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// Count reads a number that is stored as text. An empty text is 0.
func (f *Fields) Count() uint64 {
	n, ok := count(f.Text())
	f.bad = f.bad || !ok
	return n
}

const maxMillis = int64(1<<63-1)/int64(time.Millisecond) - 1

func number(v any, least, most int64) (int64, bool) {
	n, ok := v.(int64)
	return n, ok && n >= least && n <= most
}

func count(text string) (uint64, bool) {
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 10, 53)
	return n, err == nil
}

func malformed(s *Script, v any) error {
	shown := fmt.Sprintf("%.40q", fmt.Sprint(v))
	if b, ok := v.([]byte); ok {
		shown = fmt.Sprintf("%.40q", b)
	}
	return fmt.Errorf("%w to %s: %T %s", ErrReply, s.name, v, shown)
}
