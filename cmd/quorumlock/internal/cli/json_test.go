package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b\xff\u202e\n")
	f.Fuzz(func(t *testing.T, s string) {
		document := testkit.Got(json.MarshalIndent(map[string]string{"text": s}, "", "  "))(t)
		var before, after map[string]string
		printed := printable(document)
		testkit.Must(t, json.Unmarshal(document, &before))
		err := json.Unmarshal(printed, &after)
		testkit.Check(t, err == nil && before["text"] == after["text"], "%q: %v", printed, err)
		testkit.Check(t, !strings.ContainsFunc(string(printed), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }),
			"%q is printed as %q", s, printed)
	})
}

func TestPrintable(t *testing.T) {
	document := "{\n  \"a\": \"\u009b \u202e \U000e0041 ä\"\n}\n"
	const want = "{\n  \"a\": \"\\u009b \\u202e \\udb40\\udc41 ä\"\n}\n"
	testkit.Equal(t, string(printable([]byte(document))), want, "printed")
}
