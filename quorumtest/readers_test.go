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
	if _, err := rw.TryLock(t.Context()); !errors.Is(err, quorum.ErrHeld) {
		t.Errorf("a writer next to a reader: %v", err)
	}
	reader, err := rw.TryRLock(t.Context())
	testkit.Must(t, err)
	m.Lose(reader)
	if !errors.Is(reader.Err(), quorum.ErrLost) || !elsewhere.Valid() {
		t.Errorf("the reader: %v; the other: %v", reader.Err(), elsewhere.Err())
	}
	m.Lose(elsewhere)
	writer, err := rw.TryLock(t.Context())
	testkit.Must(t, err)
	testkit.Must(t, writer.Downgrade(t.Context()))
	m.Lose(writer)
	if !errors.Is(writer.Err(), quorum.ErrLost) {
		t.Errorf("the downgraded writer: %v", writer.Err())
	}
}
