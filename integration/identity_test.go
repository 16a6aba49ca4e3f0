package integration_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// safeBuffer may be written and read at once.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A user that may neither write nor read identities locks as ever. Its locks have none, and the log
// says nothing.
func TestUserWithoutIdentities(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	may(t, f)
	onAll(t, f, "ACL", "SETUSER", "app", "resetkeys", "~quorumlock:marker", "~quorumlock:counter:*",
		"~quorumlock:released:*", "~quorumlock:writer:*", "~quorumlock:forced:*", "~app:*")
	var log safeBuffer
	logger := quorum.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	anonymous, known := open(t, asApp(f), redlock.Open, logger), open(t, f, redlock.Open, logger, quorum.WithLabel("nightly"))

	held := lock(t, anonymous, "app:a")
	grantedByAll(t, f.Masters, "app:a")
	for _, l := range []*quorum.Locker{known, open(t, asApp(f), redlock.Open, logger)} {
		took(t, "TryLock", soon/2, func() {
			_, err := l.TryLock(t.Context(), "app:a")
			want(t, err, quorum.ErrHeld, "held by another (", held.Owner())
		})
	}
	state, err := known.Inspect(t.Context(), "app:a")
	if err != nil || state.Owner != held.Owner() || state.Identity != (quorum.Identity{}) {
		t.Errorf("%+v, %v", state, err)
	}
	unlock(t, held)

	held = lock(t, known, "app:a")
	eventually(t, patience, func() bool {
		return !slices.ContainsFunc(f.Masters, func(m *redistest.Master) bool { return len(do(t, m, "KEYS", "quorumlock:locker:*").([]any)) != 1 })
	}, "an identity on each master")
	_, err = anonymous.TryLock(t.Context(), "app:a")
	want(t, err, quorum.ErrHeld, "held by another (", held.Owner())
	if state, err = anonymous.Inspect(t.Context(), "app:a"); err != nil || state.Owner != held.Owner() ||
		state.Identity != (quorum.Identity{}) {
		t.Errorf("%+v, %v", state, err)
	}
	another := open(t, f, redlock.Open, logger)
	poll.Until(patience, func() bool { // a TryLock waits only briefly for who the holder is
		_, err = another.TryLock(t.Context(), "app:a")
		return err == nil || strings.Contains(err.Error(), "held by nightly on ")
	})
	want(t, err, quorum.ErrHeld, "held by nightly on ", known.Identity().String())
	unlock(t, held)
	if said := log.String(); said != "" {
		t.Errorf("the log says: %s", said)
	}
}
