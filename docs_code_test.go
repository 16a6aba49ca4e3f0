package quorumlock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

// README.md, docs/usage.md, docs/operations.md and docs/leader.md quote the functions of this file.

type work func(ctx context.Context) error

// readme is quoted by README.md. Its masters are the reader's: Example runs the same.
func readme(ctx context.Context, charge func(ctx context.Context, token uint64) error) error {
	locker, err := redlock.Open([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
	if err != nil {
		return err
	}
	defer locker.Close()

	// Do waits for the lock, and renews it until the function returns.
	return locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
		return charge(ctx, lock.Token()) // ctx ends when the lock can no longer be trusted
	}, "invoice:42") // the error also reports a lock that was lost on the way
}

var _ = readme

// overTLS is quoted by docs/operations.md. Its certificates are the reader's.
func overTLS(urls []string, roots *x509.CertPool) (*quorum.Locker, error) {
	tlsConfig := &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    roots, // of a bundle: the authority's certificate, and the next one's
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair("/etc/tls/tls.crt", "/etc/tls/tls.key") // read at each connection
			return &pair, err
		},
	}
	locker, err := redlock.Open(urls, quorum.WithNodeOptions(node.WithTLS(tlsConfig)))
	return locker, err
}

var _ = overTLS

func TestOneRedis(t *testing.T) {
	locker := testkit.Opened(redlock.Open(quorumtest.Start(t, 1).URLs()))(t)
	_, err := locker.Lock(t.Context(), "invoice:42") // a busy machine exceeds the timeout, and Lock tries again
	testkit.Must(t, err)
}

// One master renews for an hour. It restarts empty: the lock is lost, and the next holder, with a greater token, waits
// for one max lease.
func TestOneRedisRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := quorumtest.Start(t, 1)
		lock := testkit.Got(masters.Locker().Lock(t.Context(), "invoice:42"))(t)
		time.Sleep(time.Hour)
		if !lock.Valid() {
			t.Error("not renewed")
		}
		began := time.Now()
		masters.Forget(0)
		next := testkit.Got(masters.Locker().Lock(t.Context(), "invoice:42"))(t)
		if took := time.Since(began); took < node.DefaultMaxLease || next.Token() <= lock.Token() || lock.Valid() ||
			!errors.Is(context.Cause(lock.Context()), quorum.ErrLost) {
			t.Errorf("after %v token %d, before %d, valid %v", took, next.Token(), lock.Token(), lock.Valid())
		}
	})
}

func do(ctx context.Context, locker *quorum.Locker, work func(ctx context.Context, token uint64) error) error {
	err := locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
		return work(ctx, lock.Token())
	}, "invoice:42")
	return err
}

func lock(ctx context.Context, locker *quorum.Locker, work work) error {
	lock, err := locker.Lock(ctx, "invoice:42")
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx) // sent even if ctx has ended
	return work(lock.Context())
}

func waitFor(ctx context.Context, locker *quorum.Locker) (*quorum.Lock, error) {
	patient := locker.With(quorum.WithWait(10 * time.Second)) // or as an option of Open
	lock, err := patient.Lock(ctx, "invoice:42")
	return lock, err
}

func TestUsage(t *testing.T) {
	locker := quorumtest.Start(t, 3).Locker()
	ctx := t.Context()
	ran := 0
	count := func(context.Context) error { ran++; return nil }
	countDone := func(ctx context.Context, _ uint64) error { return count(ctx) }
	for range 2 {
		if err := errors.Join(do(ctx, locker, countDone), lock(ctx, locker, count)); err != nil {
			t.Error(err)
		}
	}
	if ran != 4 {
		t.Errorf("do and lock ran it %d times, want 4", ran)
	}
	lock := testkit.Got(waitFor(ctx, locker))(t)
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// bills is a service that locks.
type bills struct {
	locker *quorum.Locker
	Pay    func(ctx context.Context, lock *quorum.Lock) error
}

func (b *bills) Charge(ctx context.Context, _ int) error {
	return b.locker.Do(ctx, b.Pay, "invoice:42")
}

// service stands for the package of a service.
var service = struct {
	New func(*quorum.Locker) *bills
}{func(l *quorum.Locker) *bills { return &bills{locker: l} }}

func TestStopsWhenTheLockIsLost(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	svc := service.New(masters.Locker())
	svc.Pay = func(ctx context.Context, lock *quorum.Lock) error { // the test's stand-in for the work
		masters.Lose(lock)
		return context.Cause(ctx)
	}
	if err := svc.Charge(t.Context(), 42); !errors.Is(err, quorum.ErrLost) {
		t.Errorf("charged without the lock: %v", err)
	}
}

func TestStopsAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := quorumtest.Start(t, 3)
		locker := masters.Locker()
		svc := service.New(locker)
		svc.Pay = func(ctx context.Context, lock *quorum.Lock) error {
			time.Sleep(time.Hour) // renewals keep the lock
			if !lock.Valid() {
				t.Error("lost while it worked")
			}
			masters.Pause(locker, time.Minute) // longer than the lease
			if lock.Valid() {
				t.Error("valid after the pause")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if err := svc.Charge(t.Context(), 42); !errors.Is(err, quorum.ErrLost) {
			t.Errorf("charged without the lock: %v", err)
		}
	})
}

func TestReadsTheToken(t *testing.T) {
	pay := func(ctx context.Context) error {
		if lock, ok := quorum.FromContext(ctx, "invoice:42"); !ok || lock.Token() != 7 {
			t.Errorf("found %v, token %d", ok, lock.Token())
		}
		return nil
	}
	ctx := quorumtest.ContextWithToken(t.Context(), 7, "invoice:42")
	err := pay(ctx) // quorum.FromContext(ctx, "invoice:42") finds a lock with token 7
	if err != nil {
		t.Error(err)
	}
}

// schedule stands for the work of a leader.
type schedule func(ctx context.Context, token uint64) error

func run(ctx context.Context, urls []string, schedule schedule) error {
	locker, err := redlock.Open(urls, quorum.WithLease(10*time.Second))
	if err != nil {
		return err
	}
	defer locker.Close()
	candidate, err := leader.New(locker, "billing/scheduler")
	if err != nil {
		return err
	}
	return candidate.Run(ctx, func(ctx context.Context, t *leader.Term) error {
		return schedule(ctx, t.Token()) // while this instance leads; returns when ctx ends
	})
}

func campaign(ctx context.Context, candidate *leader.Candidate, schedule schedule) error {
	term, err := candidate.Campaign(ctx) // waits; ctx is also the parent of term.Context()
	if err != nil {
		return err
	}
	defer term.Resign(ctx) // when the work has ended, not before
	return schedule(term.Context(), term.Token())
}

func TestLeaderOfTheDocuments(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	candidate := testkit.Got(leader.New(masters.Locker(), "billing/scheduler"))(t)
	var tokens []uint64
	leads := func(ctx context.Context, token uint64) error {
		tokens = append(tokens, token)
		return ctx.Err()
	}
	if err := errors.Join(campaign(t.Context(), candidate, leads), campaign(t.Context(), candidate, leads)); err != nil {
		t.Error(err)
	}
	if len(tokens) != 2 || tokens[1] <= tokens[0] {
		t.Errorf("tokens %d", tokens)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, masters.URLs(), leads); !errors.Is(err, context.Canceled) {
		t.Errorf("Run after its context has ended: %v", err)
	}
}
