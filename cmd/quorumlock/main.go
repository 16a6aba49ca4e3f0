// Command quorumlock runs a command under a lock, shows who holds one, and deletes one. It
// demonstrates the lock on masters that it starts itself. It checks and admits the masters of a
// deployment, and changes their list.
//
// The files, by command; each list uses only what comes before it:
//
//	all                  help.go, flags.go, program.go, nodes.go, masters.go, finding.go, screen*.go
//	check                check_json.go, check_tls.go, check_try.go, tls_files.go, check.go; admit.go
//	status, top, unlock  lock_line.go, lock_state.go, lock_text.go, status.go, top_state.go, top.go, unlock.go
//	run                  run_codes.go, run_line.go, signals.go, run_lock.go, child*.go, terminal.go, job.go, run.go
//	members              members_lockers.go, members_run.go, show.go, members.go
//	demo                 narrator.go, demo_picture.go, demo_contend.go, demo_outage.go, demo.go
//	others               version.go, man.go, completion.go
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/urfave/cli/v3"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

const description = `A URL is redis://[[user]:password@]host[:port][/database][?name=NAME], or with rediss, valkey,
valkeys or unix. With TLS, ?server-name=HOST is the name in the certificate.
run, status, top and unlock take the masters' URLs, separated by spaces or commas, from the variable QUORUMLOCK_URLS or
from the file of --urls-file, because a command line shows passwords. check and members show do the same if they get no
URLs as arguments. All clients must know a master by the same name: the one in its URL, or host:port. Flags take one
dash or two, and come before the arguments.

Exit codes: 0 if all is well, 1 if not, 2 if the command line is invalid, 130 if interrupted.
run, status, top and unlock use others: see their help (quorumlock run -h).`

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == runName { // it forwards signals, and its command would inherit an ignored one
		os.Exit(run(context.Background(), args, os.Stdout, os.Stderr))
	}
	// A write to a closed pipe (quorumlock demo | head) must fail, not end the process before its
	// cleanup.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	runName = "run"
	// completionRequest ends a command line that a shell wants completed. The library carries out
	// nothing then. In a job it is an argument: our scripts ask for nothing behind --.
	completionRequest = "--generate-shell-completion"
)

// run carries out a command line and returns the exit code. At the end of ctx it cleans up and
// returns exitInterrupted.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := &program{stdout: stdout, stderr: stderr}
	var job []string // what run runs: from its -- on, which is not for the library
	switch {
	case len(args) == 0:
		p.stdout, args, p.code = stderr, []string{"help"}, exitUsage
	case args[0] == "-version" || args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	case args[0] == runName:
		dashes := slices.Index(args, "--")
		if dashes >= 0 && !slices.Equal(args[dashes+1:], []string{completionRequest}) { // else the shell completes --
			args, job = args[:dashes], args[dashes:]
		}
	}
	if job == nil && args[len(args)-1] == completionRequest {
		p.stdout = withoutBackquotes{stdout}
	}
	if err := p.app(job).Run(ctx, append([]string{"quorumlock"}, args...)); err != nil {
		if args[0] == "completion" {
			p.misused("completion needs one of bash, zsh, fish, pwsh")
		} else {
			p.misused("there is no help for that") // the errors of commands do not come here
		}
	}
	return p.code
}

// app returns the commands.
func (p *program) app(job []string) *cli.Command {
	return &cli.Command{
		Name: "quorumlock", Usage: "one lock over several independent Redis masters", Description: description,
		Writer: p.stdout, ErrWriter: p.stderr, ExitErrHandler: func(context.Context, *cli.Command, error) {},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: p.completionCommand,
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			p.misused((&lineFlags{}).explain(err).Error())
			return nil
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			said, names := named(cmd.Args().First()), []string(nil)
			for _, known := range cmd.Commands {
				names = append(names, known.Name)
			}
			if said != "" {
				said += didYouMean(cmd.Args().First(), names)
			}
			p.misused("there is no such command" + said)
			return nil
		},
		Commands: []*cli.Command{
			p.runCommand(job), p.statusCommand(), p.topCommand(), p.unlockCommand(), p.demoCommand(), p.checkCommand(),
			p.admitCommand(), p.membersCommand(), p.versionCommand(), p.manCommand(),
		},
	}
}

func (p *program) demoCommand() *cli.Command {
	flags, svg := &lineFlags{}, ""
	flags.value("svg", "write the picture at the end to `FILE`, too, as an SVG", "the path of a file", func(text string) error {
		svg = text
		if text == "" {
			return errors.New("no path")
		}
		return nil
	})
	return p.command("demo", "start five masters, lock, kill masters one after another, bring them back, draw what happened; under 40 s",
		" ", flags, exitUsage, func(ctx context.Context, args []string) int {
			if len(args) > 0 {
				p.misused("demo takes no arguments")
				return exitUsage
			}
			return demonstrate(ctx, redistest.Start, svg, p.stdout, p.stderr)
		})
}

func (p *program) versionCommand() *cli.Command {
	return p.alone("version", "print the version of this command",
		func(context.Context) int { return printVersion(p.stdout) })
}

// alone makes a command without flags and arguments.
func (p *program) alone(name, usage string, do func(context.Context) int) *cli.Command {
	return p.command(name, usage, " ", &lineFlags{}, exitUsage, func(ctx context.Context, args []string) int {
		if len(args) > 0 {
			p.misused(name + " takes no arguments")
			return exitUsage
		}
		return do(ctx)
	})
}
