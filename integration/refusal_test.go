package integration_test

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Ready fails where nothing would be granted, with what the masters say. None of the errors advises what they would
// refuse, too.
func TestReadyWhereMastersRefuseWrites(t *testing.T) {
	f := fleet(t, 3)
	refuse := func(replicas string) {
		for _, m := range f.Masters {
			_, err := m.Do("CONFIG", "SET", "min-replicas-to-write", replicas)
			must(t, err)
		}
	}
	refuse("1")
	locker := open(t, f, redlock.Open)
	err := locker.Ready(t.Context())
	wantErr(t, err, quorum.ErrUnavailable)
	if !strings.Contains(err.Error(), "NOREPLICAS") || strings.Contains(err.Error(), "admit") {
		t.Errorf("new masters: %v", err)
	}
	refuse("0")
	unlock(t, lock(t, locker, "a"))
	refuse("1")
	err = locker.Ready(t.Context())
	wantErr(t, err, quorum.ErrUnavailable)
	if strings.Count(err.Error(), "NOREPLICAS") == 0 {
		t.Errorf("masters that were used: %v", err)
	}
	refuse("0")
	must(t, locker.Ready(t.Context()))
}
