package locks

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// Characters that are wide, or on top of others, shift no column.
func TestTable(t *testing.T) {
	t.Parallel()
	var all table
	for _, name := range []string{"plain", "夜間報告", "ｶﾀｶﾅ", "e\u0301te\u0301", "🔒 한국어"} {
		all.row(name, "after", 1)
	}
	var printed strings.Builder
	all.print(&printed)
	for line := range strings.Lines(printed.String()) {
		before, _, _ := strings.Cut(line, "after")
		testkit.Equal(t, columns(before), 11, line)
		testkit.Check(t, strings.HasSuffix(line, "after  1\n"), "it ends with spaces: %q", line)
	}
	for width, want := range map[int]string{9: "夜間報告", 8: "夜間報告", 7: "夜間報…", 6: "夜間…", 1: "…"} {
		testkit.Equal(t, cut("夜間報告", width), want, width)
	}
}
