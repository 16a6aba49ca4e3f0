package multilock_test

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/quorum"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenRefusesNone(t *testing.T) {
	if _, err := multilock.Open(nil); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("Open of none: %v; want ErrInvalid", err)
	}
	if _, err := multilock.New(nil); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("New of none: %v; want ErrInvalid", err)
	}
}
