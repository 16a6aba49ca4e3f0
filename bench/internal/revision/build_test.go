package revision

import (
	"errors"
	"strings"
	"testing"
)

func TestRevisionThatTheHistoryLacks(t *testing.T) {
	const none = "0123456789012345678901234567890123456789"
	_, err := Build(t.Context(), "before", none, t.TempDir())
	if !errors.Is(err, ErrNoHistory) || !strings.Contains(err.Error(), none) {
		t.Errorf("%v, want ErrNoHistory and the revision", err)
	}
}
