package scripts

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// LockerPrefix starts the key at which a locker's identity is.
const LockerPrefix = Prefix + "locker:"

// MaxLabel bounds each text of an identity, in bytes.
const MaxLabel = 255

// ValidLabel reports whether a text may be an identity's label.
func ValidLabel(s string) bool { return printable(s) == s }

// Identity is which process a locker belongs to: the value of the locker's key, as JSON. It is for
// people to read.
type Identity struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program,omitempty"`
	Label   string `json:"label,omitempty"`
}

// LockerOf returns the id of an owner's locker: the owner's id without the number at its end.
func LockerOf(owner string) string {
	if end := strings.LastIndexByte(owner, ':'); end >= 0 {
		return owner[:end]
	}
	return owner
}

// IntroduceEvery is how often a locker that holds locks writes its identity again.
const IntroduceEvery = 15 * time.Second

// introduced is what the locker's key has.
type introduced struct {
	Identity
	List string `json:"list,omitempty"` // the digest of the locker's list of masters
}

// Introduce writes the identity of a locker and its list of masters, nil for an unknown one. The key
// outlives every lease.
func Introduce(locker string, is Identity, list *List, maxLease time.Duration) Call {
	said := introduced{Identity: is.bounded()}
	if list != nil {
		said.List = list.digest
	}
	text, _ := json.Marshal(said) // of strings and a number
	return Call{script: introduceScript,
		args: []any{introduceScript.sha, 1, LockerPrefix + locker, text, ToMillis(IntroducedFor(maxLease)).boxed}}
}

// Leave deletes the identity of a locker that holds nothing and is closed.
func Leave(locker string) Call {
	return Call{script: introduceScript, args: []any{introduceScript.sha, 1, LockerPrefix + locker, "", ToMillis(time.Millisecond).boxed}}
}

// IntroducedFor is the time to live of an identity. It is written again with renewals, which come every third of a
// lease.
func IntroducedFor(maxLease time.Duration) time.Duration { return maxLease + 3*IntroduceEvery }

// Who reads the identities of lockers, at most [MaxWho].
func Who(lockers []string) Call {
	args := make([]any, 0, 2+len(lockers))
	args = append(args, whoScript.sha, len(lockers))
	for _, locker := range lockers {
		args = append(args, LockerPrefix+locker)
	}
	return Call{script: whoScript, args: args}
}

// MaxWho is how many lockers one call of [Who] takes: a reply has a bound.
const MaxWho = 128

// parseWho reads the identities of the lockers. A missing or malformed one is zero.
func parseWho(v any, lockers int) ([]Identity, bool) {
	f, all := FieldsOf(v), make([]Identity, lockers)
	for i := range all {
		all[i], _, _ = ParseIdentity(f.Text())
	}
	return all, f.End()
}

// ParseIdentity reads what a locker's key has: its identity, and the digest of its list. ok is false for anything else.
func ParseIdentity(said string) (is Identity, list string, ok bool) {
	var found introduced
	if json.Unmarshal([]byte(said), &found) != nil || found.PID <= 0 {
		return is, "", false
	}
	return found.bounded(), found.List, true
}

// bounded returns the identity for use in messages: on one line, and not too long.
func (i Identity) bounded() Identity {
	i.Host, i.Program, i.Label = printable(i.Host), printable(i.Program), printable(i.Label)
	return i
}

func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '?'
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), MaxLabel)], "")
}
