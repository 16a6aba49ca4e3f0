package promquorumlock_test

import (
	"context"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

var ctx = context.Background()

func TestMain(m *testing.M) { testkit.Main(m) }

var must = testkit.Must
