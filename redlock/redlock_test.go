package redlock_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/standin"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenRefusesNumbersWithoutMajority(t *testing.T) {
	urls := []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3", "redis://127.0.0.1:4"}
	for _, n := range []int{0, 2, 4} {
		l, err := redlock.Open(urls[:n])
		testkit.Check(t, errors.Is(err, quorum.ErrInvalid), "Open of %d = %v, %v; want ErrInvalid", n, l, err)
	}
	_, err := redlock.New(nil)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid), "New of none: %v; want ErrInvalid", err)
}

// Clients that spell the masters' addresses in different ways have one list: they exclude each other. Two spellings of one
// address are one master.
func TestSpellings(t *testing.T) {
	fleet := standin.ForTest(t, 3)
	other := make([]string, 3)
	for i, url := range fleet.URLs() {
		other[i] = strings.Replace(url, "127.0.0.1", "[::ffff:127.0.0.1]", 1)
	}
	quick := quorum.WithNodeOptions(node.WithoutQuarantine(), node.WithTimeout(10*time.Second)) // masters that are late are not compared
	var lockers []*quorum.Locker
	var log child.Printed // of the Locker, and so of its nodes
	for _, urls := range [][]string{fleet.URLs(), other} {
		locker := testkit.Opened(redlock.Open(urls, quick, quorum.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))(t)
		lockers = append(lockers, locker)
	}
	lock := testkit.Got(lockers[0].Lock(t.Context(), "a"))(t)
	_, err := lockers[1].TryLock(t.Context(), "a")
	testkit.Check(t, errors.Is(err, quorum.ErrHeld) && !errors.Is(err, node.ErrMembership), "by another spelling: %v", err)
	testkit.Must(t, lock.Unlock(t.Context()))
	testkit.Got(lockers[1].Lock(t.Context(), "a"))(t)
	_, err = redlock.Open([]string{fleet.URLs()[0], other[0], other[1]}, quick)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid) && strings.Contains(err.Error(), "given twice"), "one master twice: %v", err)
	_, err = redlock.Open([]string{fleet.URLs()[0], strings.Replace(fleet.URLs()[0], "127.0.0.1", "localhost", 1), other[1]}, quick)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid), "one master of two names, whose connections are closed: %v", err)
	for _, m := range fleet.Masters {
		testkit.Must(t, m.Kill())
	}
	_, err = redlock.Open([]string{fleet.URLs()[0], other[0], other[1]}, quick)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid) && strings.Contains(err.Error(), "given twice"), "one dead master twice: %v", err)
	lockers[0].TryLock(t.Context(), "b")
	testkit.Eventually(t, "the death of a master is logged", func() bool { return strings.Contains(log.String(), "node down") })
}
