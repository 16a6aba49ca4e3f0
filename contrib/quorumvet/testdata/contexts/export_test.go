package contexts

import (
	"context"
	"testing"

	"github.com/quorumlock/quorumlock/quorumtest"
)

// Tests hold locks against each other. Nothing is reported.
func TestNothing(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	lock, err := masters.Locker().Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	work(context.Background(), lock.Token())
}
