package scripts_test

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

func TestDigests(t *testing.T) {
	for _, s := range slices.Concat(scripts.All(), operators.All()) {
		if digest := fmt.Sprintf("%x", sha1.Sum([]byte(s.Source()))); s.SHA() != any(digest) {
			t.Errorf("the script %s has changed. Its digest is %s", s.Name(), digest)
		}
	}
}
