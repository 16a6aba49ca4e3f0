package main

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// The exit codes of quorumlock run that are not the command's own. If sysexits.h, env(1) or
// timeout(1) have a number for the case, it is theirs.
const (
	exitRunUsage      = 64  // the command line is invalid
	exitUnavailable   = 69  // too few masters answered, or they are in quarantine
	exitHeld          = 75  // another holder has the lock (-E sets another code)
	exitCredentials   = 77  // the masters refuse the password, or what the user asks for
	exitConfiguration = 78  // the URLs, or the masters, cannot be used as they are
	exitEnded         = 124 // the lock was lost, or -max-hold came, before the command was done
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128 // plus the number of the signal
)

// exitError is an error with the exit code that it leads to.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int, err error) error { return &exitError{code, err} }

// codeOfMasters returns the exit code if too few masters answered as they should, by their errors.
// For errors that pass by themselves it is exitUnavailable.
func codeOfMasters(errs []error, masters, need int) int {
	code, usable := exitUnavailable, masters
	for _, err := range errs {
		var n *node.Error
		if !errors.As(err, &n) || !n.Permanent() {
			continue
		}
		usable--
		switch {
		case redisconn.HasCode(n.Err, "WRONGPASS", "NOAUTH", "NOPERM", "ERR AUTH", "ERR invalid password",
			"ERR Client sent AUTH"):
			code = exitCredentials
		case code != exitCredentials:
			code = exitConfiguration
		}
	}
	if usable >= need { // without those errors, too few masters would be left all the same
		return exitUnavailable
	}
	return code
}
