// Package cli is the frame of the command: a table of subcommands becomes a command line with help, a manual
// page and shell completion. A subcommand is a [Command]: it defines its flags, and is carried out on the
// streams of a [Program]. An error in a command line is one line on stderr, which repeats no value that may
// hold a password. Only this package knows the library that parses command lines.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/plain"
)

// Command is a row of the table.
type Command struct {
	Name      string
	Usage     string // in one line
	Arguments string // as the help shows them; empty if it takes none
	Help      string // the last part of the help: an example, and the exit codes
	Misuse    int    // the exit code for a command line that cannot be used; 0 for ExitUsage
	// Job: the arguments after -- are the command line of a program to run. Such a command gets all signals.
	Job bool
	// Define adds the flags, and returns what carries the command out once they are set.
	Define func(*Flags) Action

	Below []Command // subcommands; then only Name and Usage are set
}

// Action carries out a command with the arguments that follow the flags, and returns the exit code.
type Action func(ctx context.Context, p *Program, args []string) int

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

// PrintJSON prints JSON that is safe for a terminal, with any texts in it.
func PrintJSON(out io.Writer, v any) error {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(printable(document.Bytes()))
	return err
}

// printable returns a document in JSON with an escape in place of each character that is not printable.
// It means the same. encoding/json escapes few of them.
func printable(document []byte) []byte {
	var out []byte
	for _, r := range string(document) {
		switch {
		case r == '\n' || strconv.IsPrint(r): // a line break stands between values only
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return out
}
