package integration_test

import (
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

// onAll runs one command on every master at the same time.
func onAll(t *testing.T, f *redistest.Fleet, args ...any) {
	t.Helper()
	var all sync.WaitGroup
	for _, m := range f.Masters {
		all.Go(func() {
			if _, err := m.Do(args...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// The master releases the lock, but its connection dies before the reply. The resent release finds
// nothing, which Unlock does not take for an earlier loss.
func TestUnlockWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	net := proxied(t, f)
	l := open(t, net, redlock.Open)
	held := lock(t, l, "bridge")
	net.each(func(p *proxy) { p.set(replies, weather{dropped: true}) })
	unlocked := make(chan error, 1)
	go func() { unlocked <- held.Unlock(t.Context()) }()
	noKeys(t, f.Masters, "bridge")
	net.each((*proxy).heal)
	if err := <-unlocked; err != nil {
		t.Errorf("Unlock of a lock that was held: %v", err)
	}
}
