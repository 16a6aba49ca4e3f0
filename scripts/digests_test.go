package scripts

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"slices"
	"testing"
)

func TestDigests(t *testing.T) {
	right, rows := map[string]any{}, ""
	for _, s := range slices.Concat(All(), OfOperators()) {
		digest := fmt.Sprintf("%x", sha1.Sum([]byte(s.Source())))
		right[s.Name()] = digest
		rows += fmt.Sprintf("\t%q: %q,\n", s.Name(), digest)
	}
	if !maps.Equal(digests, right) {
		t.Errorf("a script has changed. The digests in digests.go should be\n%s", rows)
	}
}
