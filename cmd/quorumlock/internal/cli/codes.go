package cli

import (
	"errors"
	"strings"

	"github.com/quorumlock/quorumlock/internal/plain"
)

// The exit codes of all commands.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// The exit codes of the commands over locks. run uses them unless the code is its job's own. They follow sysexits.h,
// env(1) and timeout(1).
const (
	ExitLockUsage     = 64  // the command line is invalid
	ExitUnavailable   = 69  // too few masters answered, or they are in quarantine
	ExitHeld          = 75  // another holder has the lock (-E sets another code)
	ExitCredentials   = 77  // the masters refuse the password, or what the user asks for
	ExitConfiguration = 78  // the URLs, or the masters, cannot be used as they are
	ExitEnded         = 124 // the lock was lost, or -max-hold came, before the job was done
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignalled     = 128 // plus the number of the signal
)

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// ExitWith adds to an error the exit code that it leads to.
func ExitWith(code int, err error) error { return &exitError{code, err} }

// CodeOf returns the exit code that [ExitWith] added, or otherwise.
func CodeOf(err error, otherwise int) int {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return otherwise
}

// OneLine formats an error for a log that has one entry in a line.
func OneLine(err error) string {
	text := strings.ReplaceAll(err.Error(), "quorumlock: ", "") // the package's, in the middle for wrapped errors
	return plain.Text(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
}
