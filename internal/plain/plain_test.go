package plain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"plain, with \"quotes\" and ä": "plain, with \"quotes\" and ä",
		"a\x1b[2Jb":                    `a\x1b[2Jb`,
		"\x9b31m":                      `\x9b31m`,
		"\u009b31m":                    `\u009b31m`,
		"abc\u202ecba":                 `abc\u202ecba`,
		"\u2066\u200b\ufeff":           `\u2066\u200b\ufeff`,
		"one\ntwo\r\tthree\x00\x7f":    `one\ntwo\r\tthree\x00\x7f`,
		"\U000e0041":                   `\U000e0041`,
		"\ufffd":                       "\ufffd",
		`already \x1b`:                 `already \x1b`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b\xff\u202e\n")
	f.Fuzz(func(t *testing.T, s string) {
		shown := Text(s)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("%q is shown as %q", s, shown)
		}
		if Text(shown) != shown {
			t.Errorf("%q is shown in another way than itself", shown)
		}
	})
}

func TestGrouped(t *testing.T) {
	var groups Grouped
	for _, of := range [][2]string{{"a", "x"}, {"b", "y"}, {"", "z"}, {"c", "x"}, {"", "y"}} {
		groups.Add(of[0], of[1])
	}
	if got := fmt.Sprint(groups); got != "[a, c b ]" || groups[0].Reason+groups[1].Reason+groups[2].Reason != "xyz" {
		t.Errorf("%+v", groups)
	}
}

func TestJoin(t *testing.T) {
	one, other := errors.New("one"), errors.New("other")
	if joined := Join(one, other); !errors.Is(joined, one) || !errors.Is(joined, other) || joined.Error() != "one; other" {
		t.Errorf("%v", joined)
	}
	if Join(one, nil) != one || Join(nil, other) != other || Join(nil, nil) != nil {
		t.Error("of one error it makes another")
	}
}
