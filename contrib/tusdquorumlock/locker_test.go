package tusdquorumlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/tusdquorumlock"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/tus/tusd/v2/pkg/handler"
)

// soon is within what an interrupted upload resumes.
const soon = time.Second

// twoServers starts two servers, each with a locker of its own.
func twoServers(t *testing.T, masters *quorumtest.Masters, opts ...quorum.Option) (first, second *server) {
	t.Helper()
	dir := t.TempDir()
	first, second = start(serve, masters.Locker(opts...), dir), start(serve, masters.Locker(opts...), dir)
	t.Cleanup(first.Close)
	t.Cleanup(second.Close)
	return first, second
}

// The connection of an upload dies, and its server has not noticed. The client resumes at once: at
// another server, at the same one, with a master that is down, and again and again.
func TestAnInterruptedUploadResumes(t *testing.T) {
	for name, of := range map[string]struct {
		masters, down int
		same          bool
	}{
		"at another server":  {masters: 3},
		"at the same server": {masters: 3, same: true},
		"with a dead master": {masters: 3, down: 1},
	} {
		t.Run(name, func(t *testing.T) {
			masters := quorumtest.Start(t, of.masters)
			first, second := twoServers(t, masters)
			if of.same {
				second = first
			}
			for i := range of.down {
				masters.Stop(i)
			}
			const text = "the quick brown fox"
			upload := first.create(len(text))
			for offset := 0; offset < 12; offset += 4 {
				broken := first.begin(upload, offset, text[offset:offset+4], len(text))
				defer broken.Close()
				since := poll.Start()
				defer since.Stop()
				at := second.offset(upload)
				took, stalled := since.Read()
				t.Logf("resumed after %v; the machine stood still for %v", took, stalled)
				testkit.Check(t, took <= poll.AtMost(soon, stalled), "it took %v until the upload could resume", took)
				if at != map[int]string{0: "4", 4: "8", 8: "12"}[offset] {
					t.Fatalf("the upload resumes at %s, want all that has arrived", at)
				}
				status, body := response(t, broken)
				testkit.Check(t, strings.HasPrefix(body, "ERR_UPLOAD_INTERRUPTED"), "the first request ended with %s: %s", status, body)
				first, second = second, first
			}
			testkit.Equal(t, second.send(upload, 12, text[12:]), "204 No Content", "the rest")
			testkit.Equal(t, second.stored(upload), text, "stored")
		})
	}
}

// The control: a server that does not ask gets no upload before tusd gives up.
func TestWithoutARequestNoUploadResumes(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	first, _ := twoServers(t, masters)
	upload := first.create(10)
	broken := first.begin(upload, 0, "hello", 10)
	defer broken.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	name := "tusd:" + upload[strings.LastIndexByte(upload, '/')+1:]
	_, err := masters.Locker().Lock(ctx, name)
	testkit.Check(t, errors.Is(err, quorum.ErrHeld) && ctx.Err() != nil, "the upload's lock was to be had: %v", err)
}

// A lock that is lost stops the upload: another server may have it.
func TestALostLockStopsTheUpload(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	acquired := make(chan *quorum.Lock, 10)
	first, second := twoServers(t, masters,
		quorum.WithHooks(quorum.Hooks{Acquired: func(l *quorum.Lock) { acquired <- l }}))
	upload := first.create(10)
	broken := first.begin(upload, 0, "hello", 10)
	defer broken.Close()
	masters.Lose(<-acquired)
	status, body := response(t, broken)
	testkit.Check(t, strings.HasPrefix(body, "ERR_UPLOAD_INTERRUPTED"), "the upload ended with %s: %s", status, body)
	testkit.Equal(t, second.send(upload, 5, "world"), "204 No Content", "the rest")
}

// newLock returns an upload's lock of another server.
func newLock(t *testing.T, locker *quorum.Locker, id string) handler.Lock {
	t.Helper()
	uploads, err := tusdquorumlock.New(locker)
	testkit.Must(t, err)
	lock, err := uploads.NewLock(id)
	testkit.Must(t, err)
	return lock
}

// What tusd expects of a lock.
func TestLock(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker, asked := masters.Locker(), make(chan struct{}, 10)
	ask := func() { asked <- struct{}{} }
	lock := newLock(t, locker, "a")
	testkit.Is(t, lock.Unlock(), quorum.ErrNotHeld, "Unlock without a Lock")
	ctx, cancel := context.WithCancel(t.Context())
	testkit.Must(t, lock.Lock(ctx, ask))
	cancel() // as tusd does: the lock stays

	waits, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	result := make(chan error, 1)
	other := newLock(t, masters.Locker(), "a")
	go func() { result <- other.Lock(waits, func() {}) }()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("not asked to let go")
	}
	giveUp()
	testkit.Is(t, <-result, handler.ErrLockTimeout, "Lock until its context ended")
	testkit.Must(t, lock.Unlock())
	testkit.Is(t, lock.Unlock(), quorum.ErrNotHeld, "the second Unlock")
	again := newLock(t, masters.Locker(), "a")
	testkit.Must(t, again.Lock(t.Context(), ask))
	testkit.Must(t, again.Unlock())
	testkit.Check(t, len(asked) == 0, "asked after Unlock, or twice")
	testkit.Is(t, newLock(t, locker, "c").Lock(ctx, ask), handler.ErrLockTimeout, "Lock with a context that has ended")
}

func TestRefused(t *testing.T) {
	_, err := tusdquorumlock.New(nil)
	testkit.Is(t, err, quorum.ErrInvalid, "no locker")
	locker := quorumtest.Start(t, 1).Locker()
	_, err = tusdquorumlock.New(locker.With(quorum.WithLease(-1)))
	testkit.Is(t, err, quorum.ErrInvalid, "a bad option")
	uploads, err := tusdquorumlock.New(locker)
	testkit.Must(t, err)
	_, err = uploads.NewLock(strings.Repeat("x", 5000))
	testkit.Is(t, err, quorum.ErrInvalid, "a long id")
	lock, err := uploads.NewLock("a")
	testkit.Must(t, err)
	testkit.Must(t, locker.Close())
	testkit.Is(t, lock.Lock(t.Context(), func() {}), quorum.ErrClosed, "a closed locker")
	_, err = uploads.NewLock("a")
	testkit.Is(t, err, quorum.ErrClosed, "a closed locker")
	_, err = tusdquorumlock.New(locker)
	testkit.Is(t, err, quorum.ErrClosed, "a closed locker")
}
