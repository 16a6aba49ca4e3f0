package recipes_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// name is one of certmagic's. Its lock is at "certs:" and the name.
const name = "issue_cert_www.example.com"

func newStorage(t *testing.T, locker *quorum.Locker) *lockedStorage {
	t.Helper()
	return &lockedStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}, locker: locker}
}

// watched returns a locker, a channel of the locks that it acquires, and one of the attempts that another holder
// refuses.
func watched(masters *quorumtest.Masters) (*quorum.Locker, <-chan *quorum.Lock, <-chan error) {
	acquired, refused := make(chan *quorum.Lock, 100), make(chan error, 100)
	return masters.Locker(quorum.WithHooks(quorum.Hooks{
		Acquired: func(l *quorum.Lock) { acquired <- l },
		Attempt: func(_ context.Context, e quorum.AttemptEvent) {
			if errors.Is(e.Err, quorum.ErrHeld) {
				refused <- e.Err
			}
		},
	})), acquired, refused
}

// receive returns what comes, soon.
func receive[T any](t *testing.T, from <-chan T) (came T) {
	t.Helper()
	select {
	case came = <-from:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return came
}

// free reports whether another process can have the lock.
func free(t *testing.T, masters *quorumtest.Masters) bool {
	t.Helper()
	other := newStorage(t, masters.Locker())
	got := testkit.Got(other.TryLock(t.Context(), name))(t)
	if got {
		must(t, other.Unlock(t.Context(), name))
	}
	return got
}

// What certmagic expects, of callers in two processes and in one.
func TestLocks(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	first := newStorage(t, masters.Locker())
	for title, second := range map[string]*lockedStorage{
		"two processes": newStorage(t, masters.Locker()),
		"one process":   first,
	} {
		t.Run(title, func(t *testing.T) {
			ctx := testkit.Within(t, patience)
			ended, cancel := context.WithCancel(ctx)
			must(t, first.Lock(ended, name))
			cancel() // the lock stays
			got, err := second.TryLock(t.Context(), name)
			testkit.Check(t, !got && err == nil, "TryLock while another has it: %v, %v", got, err)
			testkit.Is(t, second.Lock(ended, name), context.Canceled, "Lock with a context that has ended")
			got, err = second.TryLock(t.Context(), "other")
			testkit.Check(t, got && err == nil, "TryLock of another name: %v, %v", got, err)
			err = second.Unlock(ended, "other") // it is sent, and perhaps not confirmed
			testkit.Check(t, err == nil || errors.Is(err, context.Canceled), "Unlock with a context that has ended: %v", err)
			must(t, first.Unlock(ctx, name))
			got, err = second.TryLock(ended, name)
			testkit.Check(t, !got && errors.Is(err, context.Canceled), "TryLock with a context that has ended: %v, %v", got, err)

			var working atomic.Int64
			var callers sync.WaitGroup
			for i := range 6 {
				by := []*lockedStorage{first, second}[i%2]
				callers.Go(func() {
					for range 10 {
						if err := by.Lock(ctx, name); err != nil {
							t.Error(err)
							return
						}
						testkit.Equal(t, working.Add(1), 1, "how many have the lock")
						working.Add(-1)
						testkit.Is(t, by.Unlock(ctx, name), nil, "Unlock")
					}
				})
			}
			callers.Wait()
			testkit.Is(t, second.Unlock(t.Context(), name), quorum.ErrNotHeld, "Unlock without a Lock")
		})
	}
}

// The job whose lock is lost goes on. A second one of the process waits for its end, and its Unlock leaves the
// second one's lock alone.
func TestALostLockEndsWithItsJob(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker, acquired, _ := watched(masters)
	storage := newStorage(t, locker)
	must(t, storage.Lock(t.Context(), name))
	masters.Lose(receive(t, acquired))
	got, err := storage.TryLock(t.Context(), name)
	testkit.Check(t, !got && err == nil, "TryLock beside a job: %v, %v", got, err)
	testkit.Check(t, free(t, masters), "a lost lock keeps other processes out")
	second := make(chan error, 1)
	go func() { second <- storage.Lock(t.Context(), name) }()
	testkit.Is(t, storage.Unlock(t.Context(), name), quorum.ErrLost, "Unlock of a lost lock")
	must(t, receive(t, second))
	testkit.Check(t, !free(t, masters), "the first job's Unlock released the second one's lock")
	must(t, storage.Unlock(t.Context(), name))
}

func TestRenewLockLease(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker, acquired, refused := watched(masters)
	storage := newStorage(t, locker)
	renew := func(ctx context.Context) error { return storage.RenewLockLease(ctx, name, time.Hour) }
	testkit.Is(t, renew(t.Context()), quorum.ErrNotHeld, "without a Lock")
	must(t, storage.Lock(t.Context(), name))
	must(t, renew(t.Context()))
	testkit.Equal(t, len(acquired), 1, "locks acquired for a lock that is held")

	masters.Lose(receive(t, acquired))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		err := renew(ended)
		testkit.Check(t, errors.Is(err, quorum.ErrLost) && errors.Is(err, context.Canceled),
			"of a lost lock, with a context that has ended: %v", err)
	}
	result := make(chan error, 1)
	other := masters.HoldElsewhere("certs:" + name)
	go func() { result <- renew(t.Context()) }()
	receive(t, refused) // so it waits
	must(t, other.Unlock(t.Context()))
	must(t, receive(t, result))
	testkit.Check(t, !free(t, masters), "RenewLockLease returned without the lock")

	masters.Lose(receive(t, acquired))
	must(t, renew(t.Context()))
	must(t, storage.Unlock(t.Context(), name))
	testkit.Check(t, free(t, masters), "Unlock has left the lock behind")
}

// certmagic.CleanUpOwnLocks unlocks alongside a job.
func TestUnlockBesideRenewLockLease(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker, acquired, refused := watched(masters)
	storage := newStorage(t, locker)
	must(t, storage.Lock(t.Context(), name))
	masters.Lose(receive(t, acquired))
	other := masters.HoldElsewhere("certs:" + name)
	result := make(chan error, 1)
	go func() { result <- storage.RenewLockLease(t.Context(), name, time.Hour) }()
	receive(t, refused) // so it waits
	testkit.Is(t, storage.Unlock(t.Context(), name), quorum.ErrLost, "Unlock of a lost lock")
	must(t, other.Unlock(t.Context()))
	testkit.Is(t, receive(t, result), quorum.ErrNotHeld, "RenewLockLease of a job that is over")
	testkit.Check(t, free(t, masters), "the lock is left behind")
}

// unlocked is a storage whose locks do nothing.
type unlocked struct{ certmagic.Storage }

func (unlocked) Lock(context.Context, string) error   { return nil }
func (unlocked) Unlock(context.Context, string) error { return nil }

// Three servers need a certificate at once. The order of one is held up until the others have met the lock; without
// locks, the control, each of them orders.
func TestThreeServersOrderOnce(t *testing.T) {
	for title, locked := range map[string]bool{"locked": true, "without the lock": false} {
		t.Run(title, func(t *testing.T) {
			masters, dir, ca := quorumtest.Start(t, 3), t.TempDir(), newStandIn()
			ordered, goOn, waits := make(chan bool, 3), make(chan bool), make(chan bool, 3)
			ca.issue = func() { ordered <- true; <-goOn }
			results := make(chan error, 3)
			for range 3 {
				locker, _, refused := watched(masters)
				config, stop := server(locker, dir, ca)
				defer stop()
				if !locked {
					config.Storage = unlocked{config.Storage}
				}
				go func() { results <- config.ObtainCertAsync(t.Context(), "www.example.com") }()
				go func() {
					select {
					case <-refused:
						waits <- true
					case <-t.Context().Done():
					}
				}()
			}
			want := int64(3)
			if locked {
				want = 1
				receive(t, waits)
				receive(t, waits)
			}
			for range want {
				receive(t, ordered)
			}
			close(goOn)
			for range 3 {
				must(t, receive(t, results))
			}
			testkit.Equal(t, ca.orders.Load(), want, "orders")
		})
	}
}

// A process is killed while its order is under way. The next one goes on when the lease ends.
func TestAKilledProcessIsFollowed(t *testing.T) {
	masters, ca := quorumtest.Start(t, 3), newStandIn()
	masters.HoldElsewhere("certs:" + name) // and never unlocks
	locker, _, refused := watched(masters)
	config, stop := server(locker, t.TempDir(), ca)
	defer stop()
	result := make(chan error, 1)
	go func() { result <- config.ObtainCertAsync(t.Context(), "www.example.com") }()
	receive(t, refused) // so it waits
	masters.FastForward(time.Hour)
	must(t, receive(t, result))
}

// What docs/recipes.md says of a lock that is lost while the CA is at work: both orders are carried out, and
// the one that is stored last stays. What is stored then is a pair.
func TestALostLockMakesTwoOrders(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	locker, acquired, _ := watched(masters)
	dir, ca := t.TempDir(), newStandIn()
	first, stop := server(locker, dir, ca)
	defer stop()
	second, stop := server(masters.Locker(), dir, ca)
	defer stop()

	ordered, issue := make(chan bool), make(chan bool)
	ca.issue = sync.OnceFunc(func() { ordered <- true; <-issue })
	result := make(chan error, 1)
	go func() { result <- first.ObtainCertAsync(t.Context(), "www.example.com") }()
	receive(t, ordered)
	masters.Lose(receive(t, acquired))
	ca.issue = nil
	must(t, second.ObtainCertAsync(t.Context(), "www.example.com"))
	issue <- true
	must(t, receive(t, result))
	testkit.Equal(t, ca.orders.Load(), 2, "orders")
	cert := testkit.Got(second.CacheManagedCertificate(t.Context(), "www.example.com"))(t)
	testkit.Check(t, cert.Leaf.SerialNumber.Int64() == 1,
		"stored: the certificate of order %v, want the first one, which came last", cert.Leaf.SerialNumber)
}
