package quorumtest_test

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

func TestReadersElsewhere(t *testing.T) {
	m := quorumtest.Start(t, 3)
	rw := m.Locker().RWLock("a")
	elsewhere := m.ReadElsewhere("a")
	testkit.Is(t, testkit.ErrorOf(rw.TryLock(t.Context())), quorum.ErrHeld, "a writer next to a reader")
	reader := testkit.Got(rw.TryRLock(t.Context()))(t)
	m.Lose(reader)
	testkit.Check(t, errors.Is(reader.Err(), quorum.ErrLost) && elsewhere.Valid(),
		"the reader: %v; the other: %v", reader.Err(), elsewhere.Err())
	m.Lose(elsewhere)
	writer := testkit.Got(rw.TryLock(t.Context()))(t)
	testkit.Must(t, writer.Downgrade(t.Context()))
	m.Lose(writer)
	testkit.Is(t, writer.Err(), quorum.ErrLost, "the downgraded writer")
}
