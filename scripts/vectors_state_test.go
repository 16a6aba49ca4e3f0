package scripts_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// A state is a list of these, with "; " between them:
//
//	ready                        the marker of a node that has granted since its quarantine
//	marker in=20s run=other      the same, but changed: see markerWith
//	lock k rival 3 5s            a hash: an owner, its depth unless 1, the time to live if it has one
//	readers k me/5s !x/7 10s     a sorted set: when each member's lease ends; one with ! is no reader
//	counter k 7                  the token counter of k
//	expire k 5s                  a time to live
//	SET ~released:me 1           any command; ~ stands for quorumlock:, @5s for an instant from now
//
// "\x00" in quotes is as in Go, and <x*5000> is x as often as that.

// owners are the words for owners, in states and calls.
var owners = map[string]string{"me": me, "rival": rival, "third": "locker:3", "fourth": "locker:4", "former": "locker:0"}

func ownerOf(word string) string {
	if owner, ok := owners[word]; ok {
		return owner
	}
	return word
}

// wordFor is the opposite of ownerOf.
func wordFor(owner string) string {
	for word, of := range owners {
		if of == owner {
			return word
		}
	}
	return quoted(owner)
}

var (
	wordPattern = regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*"|[^" ;])+|;`)
	longPattern = regexp.MustCompile(`<(.)\*(\d+)>`)
)

// read returns what a word means.
func read(word string) string {
	if strings.HasPrefix(word, `"`) {
		word, _ = strconv.Unquote(word)
	}
	return longPattern.ReplaceAllStringFunc(word, func(s string) string {
		parts := longPattern.FindStringSubmatch(s)
		n, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], n)
	})
}

// quoted is the opposite of read.
func quoted(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		n := i
		for n < len(text) && text[n] == text[i] {
			n++
		}
		if n-i >= 60 {
			fmt.Fprintf(&b, "<%c*%d>", text[i], n-i)
		} else {
			b.WriteString(text[i:n])
		}
		i = n
	}
	if s := b.String(); s != "" && strings.Trim(strconv.Quote(s), `"`) == s && !strings.ContainsAny(s, " ;") || strings.HasPrefix(s, `{"`) {
		return s
	}
	return strconv.Quote(b.String())
}

// key returns the key that a word names.
func (v table) key(word string) string {
	own, ok := strings.CutPrefix(read(word), "~")
	if !ok {
		return own
	}
	if name, ok := strings.CutPrefix(own, "counter:"); ok && strings.Trim(name, "0123456789") != "" {
		return v.counter(name)
	}
	if owner, ok := strings.CutPrefix(own, "released:"); ok {
		own = "released:" + ownerOf(owner)
	}
	return scripts.Prefix + own
}

// short is the opposite of key.
func (v table) short(key string) string {
	own, ok := strings.CutPrefix(key, scripts.Prefix)
	if !ok {
		return quoted(key)
	}
	if name, ok := v.names[key]; ok {
		return "~counter:" + quoted(name)
	}
	if owner, ok := strings.CutPrefix(own, "released:"); ok {
		own = "released:" + wordFor(owner)
	}
	return "~" + quoted(own)
}

// counter returns the key of a name's counter, and notes whose it is.
func (v table) counter(name string) string {
	key := counterOf(name)
	if v.names[key] == "" {
		v.names[key] = name
	}
	return key
}

func (v table) prepare(state string) {
	v.t.Helper()
	var words []string
	for _, word := range append(wordPattern.FindAllString(state, -1), ";") {
		if word != ";" {
			words = append(words, word)
			continue
		}
		if len(words) > 0 {
			v.make(words[0], words[1:])
		}
		words = nil
	}
}

func (v table) make(what string, words []string) {
	v.t.Helper()
	do := func(args ...any) { testkit.Do(v.t, v.s, args...) }
	fromNow := func(d time.Duration) int64 { return (v.now() + d).Milliseconds() }
	// A key whose time to live is the last word, after so many others at least.
	expires := func(key string, least int) {
		if left, err := time.ParseDuration(words[len(words)-1]); err == nil && len(words) > least {
			do("PEXPIRE", key, left.Milliseconds())
		}
	}
	switch what {
	case "ready":
		do("SET", marker, v.markerWith(nil))
	case "marker":
		do("SET", marker, v.markerWith(words))
	case "lock":
		name, depth := v.key(words[0]), "1"
		v.counter(name)
		if len(words) > 2 && strings.Trim(words[2], "ms") == words[2] {
			depth = read(words[2])
		}
		do("HSET", name, ownerOf(read(words[1])), depth)
		expires(name, 2)
	case "readers":
		name := read(words[0])
		v.counter(name)
		for _, word := range words[1:] {
			if member, end, ok := strings.Cut(word, "/"); ok {
				score := any(end)
				if left, err := time.ParseDuration(end); err == nil {
					score = fromNow(left)
				}
				if foreign, ok := strings.CutPrefix(member, "!"); ok {
					do("ZADD", name, score, foreign)
				} else {
					do("ZADD", name, score, reader+ownerOf(member))
				}
			}
		}
		expires(name, 1)
	case "counter":
		key := v.counter(read(words[0]))
		do("SET", key, read(words[1]))
		expires(key, 2)
	case "expire":
		expires(v.key(words[0]), 1)
	default:
		args := []any{what}
		for i, word := range words {
			d, err := time.ParseDuration(strings.TrimPrefix(word, "@"))
			switch {
			case strings.HasPrefix(word, "@") && err == nil:
				args = append(args, fromNow(d))
			case i == 0:
				args = append(args, v.key(word))
			default:
				args = append(args, ownerOf(read(word)))
			}
		}
		do(args...)
	}
}

// markerWith returns the text of a marker with these differences from that of a node that is ready: in is when it
// grants, from now.
func (v table) markerWith(words []string) string {
	m := scripts.Marker{Process: process, Generation: 3, Members: ours, Next: none}
	for _, word := range words {
		option, value, _ := strings.Cut(word, "=")
		d, _ := time.ParseDuration(value)
		switch option {
		case "in":
			m.Admitted = v.now() + d
		case "run":
			m.Run = value
		case "max":
			m.MaxLease = d
		case "member":
			m.Member = value
		case "members":
			m.Members = letters(value)
		case "next":
			m.Next = letters(value)
		case "claimed":
			m.Claimed = true
		default:
			v.t.Fatalf("a marker with %s", word)
		}
	}
	return m.String()
}

// letters is a list of masters that each have one letter.
func letters(s string) *scripts.List {
	if s == "-" {
		return none
	}
	return scripts.NewList(strings.Split(s, "")...)
}
