// Package cli is the frame of the command: a table of subcommands becomes a command line with help, a manual
// page and shell completion. A subcommand is a [Command]: it defines its flags, and is carried out on the
// streams of a [Program]. What goes wrong with a command line is one line on stderr, which repeats no value
// that may hold a password. Only this package knows the library that parses command lines.
package cli

import "context"

// Command is a row of the table.
type Command struct {
	Name      string
	Usage     string // in one line
	Arguments string // as the help shows them; empty if it takes none
	Help      string // the last part of the help: an example, and the exit codes
	Misuse    int    // the exit code for a command line that cannot be used; 0 for ExitUsage
	// Job: what follows -- is the line of a program that the command runs. Such a command gets all signals.
	Job bool
	// Define adds the flags, and returns what carries the command out once they are set.
	Define func(*Flags) Action

	Below []Command // in place of all but Name and Usage
}

// Action carries out a command with the arguments that follow the flags, and returns the exit code.
type Action func(ctx context.Context, p *Program, args []string) int
