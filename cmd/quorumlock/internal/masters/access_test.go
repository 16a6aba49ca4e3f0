package masters

import (
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// URLs are separated by blanks or commas; so are the hosts of one of Sentinel.
func TestURLsAreSeparated(t *testing.T) {
	for text, want := range map[string][]string{
		"redis://a,redis://b, redis://c\nredis://d":                        {"redis://a", "redis://b", "redis://c", "redis://d"},
		"redis+sentinel://a,b:1,c/m?failover=1,rediss+Sentinel://:p@d,e/n": {"redis+sentinel://a,b:1,c/m?failover=1", "rediss+Sentinel://:p@d,e/n"},
		"cacert=/a,key=/b,redis+sentinel://a,b/m,redis://c/1":              {"cacert=/a", "key=/b", "redis+sentinel://a,b/m", "redis://c/1"},
		"redis+sentinel://a,b redis://c":                                   {"redis+sentinel://a,b", "redis://c"},
		"redis+sentinel://a,redis://b":                                     {"redis+sentinel://a,redis://b"}, // which is refused
		"redis+sentinel://a,/m":                                            {"redis+sentinel://a,/m"},
		"redis://a?name=redis+sentinel://b,c":                              {"redis://a?name=redis+sentinel://b", "c"},
	} {
		t.Setenv(URLsVariable, text)
		got, err := readURLs("")
		testkit.Check(t, err == nil && slices.Equal(got, want), "%q is %q (%v), want %q", text, got, err, want)
	}
}
