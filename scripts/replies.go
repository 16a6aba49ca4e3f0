package scripts

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrReply: none of our scripts sends such a reply. The server is broken or hostile. The reply
// never counts as a grant.
var ErrReply = errors.New("scripts: malformed reply")

// maxToken bounds tokens. They begin from a clock in microseconds, which reaches 2^52 in the year
// 2112: a higher number is another program's, or a hostile server's, and would be written back to
// the other nodes. Lua counts exactly up to 2^53.
const maxToken = 1<<52 - 1

// Outcome is what a node answers to a request for a grant.
type Outcome int

const (
	// Granted: the owner holds every name on this node.
	Granted Outcome = iota + 1
	// HeldByAnother: another owner holds one of the names, or a writer that waits keeps this reader back.
	HeldByAnother
	// Quarantined: the node may have forgotten grants, and grants nothing for a while.
	Quarantined
	// NotAccepted: the node's marker does not accept this client.
	NotAccepted
	// Barred: this owner has released already; nothing was granted.
	Barred
	// Passed: the predecessor that this owner takes over from is not there, and nobody else is.
	Passed
)

// Reply is a node's reply to one call. Only the field of the call's script is set.
type Reply struct {
	Acquire AcquireReply
	Renew   []Renewed // one for each lock of the batch
	Release ReleaseReply
	Raise   uint64 // the highest of the counters; 0 if the owner does not hold every name
	Force   bool   // a lock was deleted
	Inspect *InspectReply
	Look    *LookReply
	Mark    *MarkReply
	Who     []Identity // in the order of the call's lockers
	Slots   *SlotsReply
	Survey  *SurveyReply
	Lockers *LockersReply
	// Counters are the token counters that are there, of a call of ReadCounters.
	Counters []Counter
	// NotAccepted is set when a renewal was refused because the node's marker does not let the client
	// in.
	NotAccepted *Refusal
}

// Quarantine returns how long the node says that it grants nothing new, by a reply to a request for a grant, to a
// look or to a mark, which another client may have begun; else 0.
func (r Reply) Quarantine() time.Duration {
	if r.Acquire.Outcome == Quarantined {
		return r.Acquire.Wait
	}
	if r.Mark != nil {
		if m, err := ParseMarker(r.Mark.Marker); err == nil {
			return m.Quarantine(r.Mark.Now)
		}
	}
	if r.Look != nil {
		if m, err := ParseMarker(r.Look.Marker); err == nil && m.Run == r.Look.Process.Run {
			return m.Quarantine(r.Look.Now)
		}
	}
	return 0
}

// Refusal returns the marker of a node that did not accept the client; else nil.
func (r Reply) Refusal() *Refusal {
	if r.NotAccepted != nil {
		return r.NotAccepted
	}
	return r.Acquire.Refusal
}

// Parse reads the reply to the call; errors wrap ErrReply.
func (c Call) Parse(v any) (reply Reply, err error) {
	switch c.script {
	case acquireScript, readScript:
		reply.Acquire, err = ParseAcquire(v)
	case renewScript:
		reply.Renew, reply.NotAccepted, err = ParseRenew(v, c.batch)
	case releaseScript:
		reply.Release, err = ParseRelease(v, c.args[1].(int)-1)
	case raiseScript:
		reply.Raise, err = ParseRaise(v)
	case forceScript:
		reply.Force, err = ParseForce(v)
	case inspectScript:
		var state InspectReply
		if state, err = ParseInspect(v); err == nil {
			reply.Inspect = &state
		}
	case lookScript:
		var found LookReply
		if found, err = ParseLook(v); err == nil {
			reply.Look = &found
		}
	case introduceScript:
		err = ParseIntroduce(v)
	case askScript:
		err = ParseAsk(v)
	case whoScript:
		reply.Who, err = ParseWho(v, c.args[1].(int))
	case slotsScript:
		var found SlotsReply
		if found, err = ParseSlots(v, c.args[1].(int)); err == nil {
			reply.Slots = &found
		}
	case surveyScript:
		var found SurveyReply
		if found, err = ParseSurvey(v); err == nil {
			reply.Survey = &found
		}
	case lockersScript:
		var found LockersReply
		if found, err = ParseLockers(v); err == nil {
			reply.Lockers = &found
		}
	case countersScript:
		reply.Counters, err = ParseCounters(v)
	case liftScript:
		err = ParseLift(v)
	case markScript:
		var wrote MarkReply
		if wrote, err = ParseMark(v); err == nil {
			reply.Mark = &wrote
		}
	}
	return reply, err
}

// AcquireReply is the reply to Acquire.
type AcquireReply struct {
	Outcome Outcome
	Token   uint64 // of a grant
	// Wait is, of HeldByAnother, the longest time to live, −1 for a key without one, or that of the
	// reservation; of Quarantined, the quarantine left.
	Wait time.Duration
	// Waiting is, of HeldByAnother, how many connections subscribe to the first name's channel; 0 if the
	// user may not ask.
	Waiting  int
	Holder   string   // of HeldByAnother: the owner at the first of the names that is held; empty if Reserved
	Readers  int      // of HeldByAnother, if only readers are there: the number at the name that has the most
	Reserved bool     // of HeldByAnother: nobody is in the reader's way but a writer that waits
	Refusal  *Refusal // of NotAccepted
}

// ParseAcquire reads the reply to Acquire; errors wrap ErrReply.
func ParseAcquire(v any) (AcquireReply, error) {
	if token, ok := v.(int64); ok {
		if token < 1 || token > maxToken {
			return AcquireReply{}, malformed(acquireScript, v)
		}
		return AcquireReply{Outcome: Granted, Token: uint64(token)}, nil
	}
	if fields, ok := v.([]any); ok && (len(fields) == 4 || len(fields) == 5) {
		return parseHeld(fields, v)
	} else if refusal := parseRefusal(fields); refusal != nil {
		return AcquireReply{Outcome: NotAccepted, Refusal: refusal}, nil
	} else if len(fields) == 3 {
		return parseReserved(fields, v)
	}
	word, number, ok := pair(v)
	if !ok {
		return AcquireReply{}, malformed(acquireScript, v)
	}
	wait, ok := duration(number)
	reply := AcquireReply{Wait: wait}
	switch {
	case !ok:
		return AcquireReply{}, malformed(acquireScript, v)
	case word == "quarantined":
		reply.Outcome = Quarantined
	case word == "released":
		reply.Outcome = Barred
	case word == "passed":
		reply.Outcome = Passed
	default:
		return AcquireReply{}, malformed(acquireScript, v)
	}
	return reply, nil
}

// parseReserved reads the reply to a reader that a writer keeps back.
func parseReserved(fields []any, v any) (AcquireReply, error) {
	word, _ := text(fields[0])
	ttl, ok := fields[1].(int64)
	waiting, ok1 := fields[2].(int64)
	wait, ok2 := duration(ttl)
	if ttl == -1 {
		wait, ok2 = -1, true
	}
	if word != "reserved" || !(ok && ok1 && ok2) || waiting < 0 || waiting > 1<<31 {
		return AcquireReply{}, malformed(acquireScript, v)
	}
	return AcquireReply{Outcome: HeldByAnother, Wait: wait, Waiting: int(waiting), Reserved: true}, nil
}

func parseHeld(fields []any, v any) (AcquireReply, error) {
	word, ok := text(fields[0])
	ttl, ok1 := fields[1].(int64)
	waiting, ok2 := fields[2].(int64)
	wait, ok3 := duration(ttl)
	if ttl == -1 {
		wait, ok3 = -1, true
	}
	holder, ok4 := text(fields[3])
	readers := int64(0)
	if len(fields) == 5 {
		var isNumber bool
		readers, isNumber = fields[4].(int64)
		ok = ok && isNumber && readers > 0 && readers <= 1<<31
	}
	if !(ok && ok1 && ok2 && ok3 && ok4) || word != "held" || waiting < 0 || waiting > 1<<31 || len(holder) > 1024 {
		return AcquireReply{}, malformed(acquireScript, v)
	}
	return AcquireReply{Outcome: HeldByAnother, Wait: wait, Waiting: int(waiting), Holder: holder,
		Readers: int(readers)}, nil
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

// ParseRenew reads the reply to Renew for the same batch: one outcome for each lock, and the
// refusal if the node's marker does not accept the client; errors wrap ErrReply. A lock over
// several names is Kept when all of them were, and else Taken, or else Gone, when one of them was. A
// reader's lock has one name.
func ParseRenew(v any, batch []Renewal) ([]Renewed, *Refusal, error) {
	var refusal *Refusal
	if fields, ok := v.([]any); ok && len(fields) == 4 {
		if refusal = parseRefusal(fields[:3]); refusal == nil {
			return nil, nil, malformed(renewScript, v)
		}
		v = fields[3]
	}
	letters, ok := v.([]byte)
	names := 0
	for _, r := range batch {
		names += len(r.Names)
	}
	if !ok || len(letters) != names {
		return nil, nil, malformed(renewScript, v)
	}
	out := make([]Renewed, len(batch))
	for i, r := range batch {
		out[i] = Kept
		for _, letter := range letters[:len(r.Names)] {
			switch l := Renewed(letter); l {
			case Kept:
			case NotRenewed:
				if refusal == nil {
					return nil, nil, malformed(renewScript, v)
				}
				if out[i] == Kept {
					out[i] = l
				}
			case NotRaised:
				if out[i] == Kept {
					out[i] = l
				}
			case Gone, Taken:
				if out[i] != Taken {
					out[i] = l
				}
			default:
				return nil, nil, malformed(renewScript, v)
			}
		}
		letters = letters[len(r.Names):]
	}
	return out, refusal, nil
}

// ReleaseReply is the reply to Release.
type ReleaseReply struct {
	Found int // at how many names the owner was
	// Heard is how many connections received the message that a name became free; of several names,
	// the largest number; −1 if the user may not publish one.
	Heard int
}

// ParseRelease reads the reply to Release of that many names; errors wrap ErrReply.
func ParseRelease(v any, names int) (ReleaseReply, error) {
	found, ok := v.(int64)
	heard := int64(0)
	if fields, both := v.([]any); both && len(fields) == 2 {
		found, ok = fields[0].(int64)
		heard, both = fields[1].(int64)
		ok = ok && both && heard >= -1 && heard != 0 && heard <= 1<<31 && found > 0
	}
	if !ok || found < 0 || found > int64(names) {
		return ReleaseReply{}, malformed(releaseScript, v)
	}
	return ReleaseReply{Found: int(found), Heard: int(heard)}, nil
}

// ParseRaise reads the reply to Raise: the highest of the counters, none of which is below the
// token any more, or 0 if the owner does not hold every name. Errors wrap ErrReply.
func ParseRaise(v any) (uint64, error) {
	if n, ok := v.(int64); ok && n >= 0 && n <= maxToken {
		return uint64(n), nil
	}
	return 0, malformed(raiseScript, v)
}

// ParseForce reads the reply to Force: whether a lock was deleted. Errors wrap ErrReply.
func ParseForce(v any) (bool, error) { return boolean(forceScript, v) }

func boolean(s *Script, v any) (bool, error) {
	if n, ok := v.(int64); ok && (n == 0 || n == 1) {
		return n == 1, nil
	}
	return false, malformed(s, v)
}

// pair reads {word, number}.
func pair(v any) (word string, number int64, ok bool) {
	fields, ok := v.([]any)
	if !ok || len(fields) != 2 {
		return "", 0, false
	}
	word, ok1 := text(fields[0])
	number, ok2 := fields[1].(int64)
	return word, number, ok1 && ok2
}

func text(v any) (string, bool) {
	b, ok := v.([]byte)
	return string(b), ok
}

// count reads a number that is stored as text. An empty text is 0.
func count(v any) (uint64, bool) {
	s, ok := text(v)
	if !ok || s == "" {
		return 0, ok
	}
	n, err := strconv.ParseUint(s, 10, 53)
	return n, err == nil
}

// duration reads milliseconds. It refuses what a time.Duration cannot hold.
func duration(ms int64) (time.Duration, bool) {
	return time.Duration(ms) * time.Millisecond, ms >= 0 && ms < int64(1<<63-1)/int64(time.Millisecond)
}

// since1970 reads an instant of the node's clock, in ms.
func since1970(v any) (time.Duration, bool) {
	ms, ok := v.(int64)
	d, fits := duration(ms)
	return d, ok && fits
}

func malformed(s *Script, v any) error {
	shown := fmt.Sprintf("%.40q", fmt.Sprint(v))
	if b, ok := v.([]byte); ok {
		shown = fmt.Sprintf("%.40q", b)
	}
	return fmt.Errorf("%w to %s: %T %s", ErrReply, s.name, v, shown)
}
