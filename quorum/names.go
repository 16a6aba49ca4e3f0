package quorum

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/scripts"
)

const (
	maxNameLen = 4096
	maxNames   = 64
)

// checkNames returns why the names cannot be locked, or nil.
func checkNames(op string, names []string) error {
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > maxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), maxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case strings.HasPrefix(name, scripts.Prefix):
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys",
				i+1, scripts.Prefix)
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}

// nameSet is a set of names, in any order, as the key of a map.
type nameSet struct {
	count   int
	text    string
	readers bool // the queue of readers
}

func newNameSet(names []string) nameSet {
	if len(names) == 1 {
		return nameSet{count: 1, text: names[0]}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		fmt.Fprintf(&b, "%d:%s", len(name), name)
	}
	return nameSet{count: len(names), text: b.String()}
}

// queueOf returns the queue of calls with these settings. Readers wait in a queue of their own.
func (s *settings) queueOf(names []string) nameSet {
	key := newNameSet(names)
	key.readers = s.isReader()
	return key
}

// hash returns the hash of the names.
func (s nameSet) hash() uint32 { return hash(s.text) }

// hash is the hash FNV-1a of 32 bits, the same in every process.
func hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}
