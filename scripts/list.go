package scripts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/plain"
)

// List is a list of masters by their names: the members of a deployment, as one client or one node
// has them. It is immutable. The names of a list that was read are canonical, but it keeps the
// text: the scripts compare digests of texts, and clients that spell the names that way must still
// be accepted.
type List struct {
	names  []string // sorted
	text   string   // the names as they were given, sorted and escaped, as the marker has them
	digest string   // of the text; "-" for no members
}

// noMembers is the digest of an empty list.
const noMembers = "-"

// NewList returns the list of these members, in any order.
func NewList(names ...string) *List {
	l := &List{names: slices.Sorted(slices.Values(names)), digest: noMembers}
	escaped := make([]string, len(l.names))
	for i, name := range l.names {
		escaped[i] = escapeName(name)
	}
	if len(names) > 0 {
		l.text = strings.Join(escaped, ",")
		sum := sha256.Sum256([]byte(l.text))
		l.digest = hex.EncodeToString(sum[:8])
	}
	return l
}

// Names returns the members' names, sorted. The caller must not change them.
func (l *List) Names() []string { return l.names }

// HasDigest reports whether digest is the list's, in canonical spelling or in its own.
func (l *List) HasDigest(digest string) bool {
	return digest == l.digest || digest == NewList(l.names...).digest
}

// Twice returns a name that the list has twice, in two spellings; empty for none.
func (l *List) Twice() string {
	for i := 1; i < len(l.names); i++ {
		if l.names[i] == l.names[i-1] {
			return l.names[i]
		}
	}
	return ""
}

// Len returns the number of members.
func (l *List) Len() int { return len(l.names) }

// Has reports whether a name is a member's.
func (l *List) Has(name string) bool {
	_, found := slices.BinarySearch(l.names, name)
	return found
}

// Equal reports whether two lists have the same members.
func (l *List) Equal(other *List) bool { return slices.Equal(l.names, other.names) }

// String returns the names in braces, for people. A name that could be taken for several is quoted.
func (l *List) String() string {
	shown := make([]string, len(l.names))
	for i, name := range l.names {
		if shown[i] = plain.Text(name); strings.ContainsAny(name, " ,{}\"") {
			shown[i] = `"` + shown[i] + `"`
		}
	}
	return "{" + strings.Join(shown, ", ") + "}"
}

// escapeName writes the bytes that separate the parts of a marker, and those that no terminal
// shows, as in a URL.
func escapeName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c == ',' || c == '%' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// parseList reads a list as the marker has it. A name that it cannot read makes a list with another text.
func parseList(text string) *List {
	if text == "" {
		return NewList()
	}
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		name, _ := url.PathUnescape(part)
		names = append(names, name)
	}
	l := NewList(names...)
	for i, name := range names {
		names[i] = Canonical(name)
	}
	slices.Sort(names)
	l.names = names
	return l
}
