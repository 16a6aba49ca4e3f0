package tests

import (
	"testing"

	"github.com/quorumlock/quorumlock/quorumtest"
)

func TestLock(t *testing.T) {
	lock, err := quorumtest.Start(t, 3).Locker().Lock(t.Context(), "a") // want `the lock is still held`
	if err != nil || !lock.Valid() {
		t.Error(err)
	}
}
