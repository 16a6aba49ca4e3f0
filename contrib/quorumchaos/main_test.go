package quorumchaos_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
