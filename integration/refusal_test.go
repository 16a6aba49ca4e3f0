package integration_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
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
