// Command quorumlock runs a command under a lock, tells who holds one, and deletes one. It
// demonstrates the lock on masters that it starts itself. It checks and admits the masters of a
// deployment, and changes their list.
//
// The files of run, status, unlock and check, each of which uses only those above it (and help,
// misused): run_codes.go, flags.go, nodes.go, masters.go, finding.go, check_json.go, check.go,
// lock_line.go, lock_state.go, status.go, unlock.go, run_line.go, signals.go, run_lock.go, child.go,
// terminal.go, job.go, run.go.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

const usage = `quorumlock: one lock over several independent Redis masters

  quorumlock run [-n | -w D] [-E N] [-k D] [-max-hold D] [-min-hold D] [-lease D] [-all] [-urls-file FILE]
                 [-max-lease D] [-timeout D] NAME[,NAME...] -- COMMAND [ARGUMENT...]
        run a command while it holds the lock; the masters' URLs, separated by spaces or commas, come from the variable
        QUORUMLOCK_URLS or from FILE
        -n           do not wait for the lock            -w D          wait for it for D at most
        -E N         exit with N, not 75, when held      -all          all masters must grant it, not a majority
        -lease D     how long a grant lasts (30s)        -max-hold D   hold the lock for D at most
        -min-hold D  wait after the command, with the lock, until it was held for D: one run per period
        -k D         SIGTERM comes D before the lock ends, SIGKILL when it does (5s, at most half of the lease)
  quorumlock status [-json | -q] [-all] [-urls-file FILE] [-max-lease D] [-timeout D] NAME...
        who holds locks, by which masters, and for how long at most; masters as for run; writes nothing; -q: prints nothing
  quorumlock unlock -yes [-all] [-urls-file FILE] [-max-lease D] [-timeout D] NAME...
        delete locks, whoever holds them, on your word; without -yes it says who does; masters as for run
  quorumlock demo
        start five masters, lock, kill masters one after another, bring them back; under 40 s
  quorumlock check [-json] [-wait D] [-max-lease D] [-timeout D] URL...
        look at masters and list what makes them unfit for locks; writes nothing
        -wait D      wait for D at most until a majority grants, out of quarantine: then 0, whatever the others say
  quorumlock admit -yes [-members] [-max-lease D] [-timeout D] URL...
        end the quarantine of masters, on your word that no lock can still be held that they, or masters whose place
        they take, granted; -members: the URLs are all masters of the clients' list, and let in these clients only
  quorumlock members show [-max-lease D] [-timeout D] URL...
        the list of masters that each master has, and where a change of it stands
  quorumlock members add [-max-lease D] [-timeout D] NEW-URL URL...
  quorumlock members remove [-max-lease D] [-timeout D] NAME URL...
        let in clients with one master more, or without one, beside those with the present list, which the URLs are
  quorumlock members commit [-max-lease D] [-timeout D] URL...
        make the list that the URLs are the only one that is let in
  quorumlock members abort [-max-lease D] [-timeout D] URL...
        take back what add or remove announced; the URLs are all masters of both lists
  quorumlock version
        print the version of this command

A URL is redis://[[user]:password@]host[:port][/database][?name=NAME], or with rediss, valkey, valkeys or unix. All
clients must know a master by one name: that in its URL, or host:port. -max-lease (default 30s) is the max lease of
all the deployment's clients. -timeout (default 500ms) bounds the wait for each master.

Exit codes: 0 when all is well, 1 when not, 2 when the command line cannot be used, 130 when interrupted.
Those of unlock: 0 when no lock is left, 1 when masters refuse, 69 when too few answer; 64 without -yes; 78 as run.
Those of status: 0 when all are held, 1 when one is free, 69 when that is unknown of one; 64 and 78 as run.
Those of run: the command's own, 128 and its number for a signal; 75 or N when another holds the lock; 69 when too few
masters answered, or are in quarantine; 124 when the lock was lost, or -max-hold came, before the command was done; 126
when the command cannot be executed, 127 when it is not found; 64 for a command line that cannot be used, 77 for
credentials, 78 for URLs and masters that cannot be used.
`

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == runName { // it forwards signals, and its command would inherit an ignored one
		os.Exit(runJob(args[1:], os.Stdout, os.Stderr))
	}
	// A write to a closed pipe (quorumlock demo | head) must fail, not end the process before its
	// cleanup.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const runName = "run"

// run carries out a command line and returns the exit code. At the end of ctx it cleans up and
// returns exitInterrupted.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return misused(stderr, "")
	}
	switch command, args := args[0], args[1:]; {
	case command == "help" || isHelp(command):
		return help(stdout)
	case command == runName:
		return runJob(args, stdout, stderr)
	case command == "version" || command == "-version" || command == "--version":
		if len(args) > 0 && isHelp(args[0]) {
			return help(stdout)
		}
		if len(args) > 0 {
			return misused(stderr, "version takes no arguments")
		}
		return printVersion(stdout)
	case command == "demo":
		if len(args) > 0 && isHelp(args[0]) {
			return help(stdout)
		}
		if len(args) > 0 {
			return misused(stderr, "demo takes no arguments")
		}
		return demonstrate(ctx, redistest.Start, stdout, stderr)
	case command == "check":
		return check(ctx, args, stdout, stderr)
	case command == "status":
		return status(ctx, args, stdout, stderr)
	case command == "unlock":
		return unlock(ctx, args, stdout, stderr)
	case command == "admit":
		return admit(ctx, args, stdout, stderr)
	case command == "members":
		return members(ctx, args, stdout, stderr)
	default:
		return misused(stderr, "there is no such command"+named(command))
	}
}

// isHelp reports whether package flag takes arg as a request for help.
func isHelp(arg string) bool {
	return arg == "-h" || arg == "--h" || arg == "-help" || arg == "--help"
}

// help prints the usage on request.
func help(stdout io.Writer) int {
	fmt.Fprint(stdout, usage)
	return exitOK
}

// misused prints what is wrong with the command line in one line; the usage where it is empty.
func misused(stderr io.Writer, wrong string) int {
	if wrong == "" {
		fmt.Fprint(stderr, usage)
	} else {
		fmt.Fprintf(stderr, "quorumlock: %s (see quorumlock help)\n", wrong)
	}
	return exitUsage
}
