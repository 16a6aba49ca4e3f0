// Package plain shows texts in one line. A server's text may be anybody's: raw on a terminal
// or in a log it could move the cursor, turn the direction of writing, or forge a line.
package plain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Text returns the text with an escape in place of each byte or character that is not printable, as
// in a string of Go: \x1b, \n, \u202e. The result is one line.
func Text(s string) string {
	quoted := strconv.Quote(s)
	return printable.Replace(quoted[1 : len(quoted)-1])
}

// printable takes back the escapes of characters that are printable.
var printable = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// Count says how many there are: "1 reader", "2 readers".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Join joins two errors, which may be nil, in one line: errors.Join would put a line break between them.
func Join(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; %w", first, second)
}

// Wrap returns an error with the same meaning, whose message is [Text]'s.
func Wrap(err error) error { return shown{err} }

type shown struct{ error }

func (s shown) Error() string { return Text(s.error.Error()) }
func (s shown) Unwrap() error { return s.error }
