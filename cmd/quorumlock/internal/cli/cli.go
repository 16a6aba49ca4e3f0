// Package cli is the frame of the command: a table of subcommands becomes a command line with help, a manual
// page and shell completion. A subcommand is a [Command]: it defines its flags, and is carried out on the
// streams of a [Program]. An error in a command line is one line on stderr, which repeats no value that may
// hold a password. Only this package knows the library that parses command lines.
package cli

import "context"

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
