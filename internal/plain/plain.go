// Package plain shows texts that come from servers. Such a text may be anybody's: raw on a terminal
// or in a log it could move the cursor, turn the direction of writing, or forge a line.
package plain

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text returns the text with an escape in place of each byte or character that is not printable, as
// in a string of Go: \x1b, \n, \u202e. The result is one line.
func Text(s string) string {
	i := firstUnprintable(s)
	if i < 0 {
		return s
	}
	var b strings.Builder
	for i >= 0 {
		b.WriteString(s[:i])
		_, size := utf8.DecodeRuneInString(s[i:])
		quoted := strconv.Quote(s[i : i+size])
		b.WriteString(quoted[1 : len(quoted)-1])
		s = s[i+size:]
		i = firstUnprintable(s)
	}
	b.WriteString(s)
	return b.String()
}

// Wrap returns an error with the same meaning, whose message is [Text]'s.
func Wrap(err error) error { return shown{err} }

type shown struct{ error }

func (s shown) Error() string { return Text(s.error.Error()) }
func (s shown) Unwrap() error { return s.error }

// firstUnprintable returns the index of the first character that cannot be shown; -1 for none.
func firstUnprintable(s string) int {
	for i, r := range s {
		if !strconv.IsPrint(r) {
			return i
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 { // it is no UTF-8
				return i
			}
		}
	}
	return -1
}
