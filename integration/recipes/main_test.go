//go:build unix

// Package recipes_test runs the recipes for other projects' programs: docs/recipes.md quotes them, or links to them.
package recipes_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/quorumlock/quorumlock/internal/sqlserver"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

var postgres *sqlserver.Server

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	certmagic.Default.Logger, certmagic.DefaultACME.Logger = zap.NewNop(), zap.NewNop()
	runtime.LockOSThread() // the server ends with the thread that started it
	postgres = sqlserver.StartPostgres("postgres")
	code := m.Run()
	if err := errors.Join(postgres.Stop(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
