package multilock_test

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenRefusesNone(t *testing.T) {
	_, err := multilock.Open(nil)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid), "Open of none: %v; want ErrInvalid", err)
	_, err = multilock.New(nil)
	testkit.Check(t, errors.Is(err, quorum.ErrInvalid), "New of none: %v; want ErrInvalid", err)
}
