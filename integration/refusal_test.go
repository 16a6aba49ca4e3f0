package integration_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// A release that the masters refuse is no loss of the lock, and is carried out as soon as they
// accept it.
func TestReleaseThatIsRefusedIsCarriedOutLater(t *testing.T) {
	for what, refusal := range map[string]struct {
		begin, end []any
	}{
		"too few replicas": {
			[]any{"CONFIG", "SET", "min-replicas-to-write", "1"},
			[]any{"CONFIG", "SET", "min-replicas-to-write", "0"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := fleet(t, 3)
			locker := open(t, f, redlock.Open)
			held := lock(t, locker, "refused")
			for _, m := range f.Masters {
				_, err := m.Do(refusal.begin...)
				must(t, err)
			}
			err := held.Unlock(t.Context())
			wantErr(t, err, quorum.ErrUnavailable)
			if errors.Is(err, quorum.ErrLost) || !strings.Contains(err.Error(), "NOREPLICAS") {
				t.Errorf("Unlock: %v: want what the masters said, and no loss", err)
			}
			for _, m := range f.Masters {
				_, err := m.Do(refusal.end...)
				must(t, err)
			}
			noKeys(t, f.Masters, "refused")
		})
	}
}

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

// A server that is busy with another client's script runs nothing else. The release waits until the
// server is free.
func TestReleaseToBusyMasters(t *testing.T) {
	f := fleet(t, 3, "--lua-time-limit", "1")
	locker := open(t, f, redlock.Open, brief)
	held := lock(t, locker, "busy")
	for _, m := range f.Masters {
		go m.Do("EVAL", "while true do end", 0)
	}
	busy := func() (n int) {
		for _, m := range f.Masters {
			if _, err := m.Do("GET", "x"); err != nil && strings.Contains(err.Error(), "BUSY") {
				n++
			}
		}
		return n
	}
	eventually(t, patience, func() bool { return busy() == len(f.Masters) }, "the masters busy")
	for _, m := range f.Masters {
		time.AfterFunc(briefTimeout, func() { m.Do("SCRIPT", "KILL") })
	}
	if err := held.Unlock(t.Context()); errors.Is(err, quorum.ErrLost) {
		t.Errorf("Unlock: %v: want no loss", err)
	}
	eventually(t, patience, func() bool { return busy() == 0 }, "the masters no longer busy")
	noKeys(t, f.Masters, "busy")
}

// A log handler may call the Locker: the library holds no mutex while it logs.
func TestLogHandlerMayComeBack(t *testing.T) {
	f := fleet(t, 3)
	comeBack := make(chan error, 1)
	var locker *quorum.Locker
	handler := &reentrantHandler{Handler: slog.DiscardHandler, handle: func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := locker.Inspect(ctx, "lost")
		select {
		case comeBack <- err:
		default:
		}
	}}
	locker = open(t, f, redlock.Open, quorum.WithLease(600*time.Millisecond), quorum.WithLogger(slog.New(handler)))
	lost := lock(t, locker, "lost")
	// A renewal between two of these repairs the first: then they come again.
	eventually(t, patience, func() bool {
		onAll(t, f, "DEL", "lost")
		return lost.Context().Err() != nil
	}, "the lock is lost")
	if err := <-comeBack; err != nil {
		t.Errorf("Inspect from within the log: %v", err)
	}
}

type reentrantHandler struct {
	slog.Handler
	handle func()
}

func (h *reentrantHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *reentrantHandler) Handle(context.Context, slog.Record) error {
	h.handle()
	return nil
}

// Lock goes on waiting when one node of three is closed for good: the others are enough.
func TestOneClosedNodeDoesNotEndTheWaiting(t *testing.T) {
	f := fleet(t, 3)
	var nodes []*node.Node
	for _, url := range f.URLs() {
		n, err := node.Open(url, node.WithTimeout(nodeTimeout), node.WithoutQuarantine())
		must(t, err)
		t.Cleanup(func() { must(t, n.Close()) })
		nodes = append(nodes, n)
	}
	locker, err := redlock.New(nodes)
	must(t, err)
	t.Cleanup(func() { must(t, locker.Close()) })
	other := open(t, f, redlock.Open)
	held := lock(t, other, "shared")
	must(t, nodes[0].Close())

	got := make(chan error, 1)
	go func() {
		second, err := locker.Lock(t.Context(), "shared")
		if err == nil {
			err = second.Unlock(t.Context())
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Errorf("Lock ended while the lock is held: %v", err)
	case <-time.After(300 * time.Millisecond): // long enough for several attempts
	}
	must(t, held.Unlock(t.Context()))
	must(t, <-got)
}

// A deadline moves closer when a node forgot the lock. The context ends at the new deadline.
func TestContextEndsAtADeadlineThatCameNearer(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	net := proxied(t, f)
	locker := open(t, net, redlock.Open, quorum.WithFixedLease(4*time.Second),
		quorum.WithNodeOptions(node.WithTimeout(1200*time.Millisecond))) // Extend waits for the third
	held := lock(t, locker, "nearer")
	eventually(t, patience, func() bool { return keys(t, f.Masters, "nearer")[2] != nil }, "all three granted")
	pass(t, 50*time.Millisecond) // until the third grant has arrived
	net.proxies[2].set(requests, weather{dropped: true})
	must(t, held.Extend(t.Context(), 30*time.Second)) // the first two
	_, err := f.Masters[0].Do("DEL", "nearer")
	must(t, err)
	// The second only: the first has forgotten.
	wantErr(t, held.Extend(t.Context(), 2*time.Second), quorum.ErrUnavailable)
	select {
	case <-held.Context().Done():
		if held.Valid() {
			t.Error("the context ended, and the lock is valid")
		}
	case <-time.After(patience):
		t.Errorf("valid %v, and the context is alive", held.Valid())
	}
}

// An error that reveals a loss names each node once.
func TestExtendOfALostLockNamesEachNodeOnce(t *testing.T) {
	f := fleet(t, 3)
	held := lock(t, open(t, f, redlock.Open), "gone")
	grantedByAll(t, f.Masters, "gone")
	for _, m := range f.Masters {
		do(t, m, "DEL", "gone")
	}
	err := held.Extend(t.Context(), 30*time.Second)
	wantErr(t, err, quorum.ErrLost)
	for _, m := range f.Masters {
		if n := strings.Count(err.Error(), m.Addr()); n > 1 {
			t.Errorf("%s is named %d times: %v", m.Addr(), n, err)
		}
	}
	if !strings.Contains(err.Error(), "kept by") {
		t.Errorf("want how many keep it: %v", err)
	}
}
