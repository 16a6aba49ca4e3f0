package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/launch"
	urfave "github.com/urfave/cli/v3"
)

// App is a program: its table of commands.
type App struct {
	Description string // in the help and the manual
	Version     string // in the manual
	Commands    []Command
	Hints       map[string]string // by words that are no command: what the user may look for
}

// Program is one run of an App. Commands print on its streams.
type Program struct {
	Stdout, Stderr io.Writer
	Command        string   // the full name of the command, once it is known
	Job            []string // of a command with Job: -- and the line of its program; nil without --

	app    App
	code   int
	misuse int // the command's exit code for a command line that cannot be used
}

// completionRequest ends a command line that a shell wants completed. The library carries out
// nothing then. In a job it is an argument: our scripts ask for nothing after --.
const completionRequest = "--generate-shell-completion"

// Main runs the command line of this process, and exits with its code. The first signal that ends programs ends the
// command's context, except for a command with Job: it forwards signals, and its job would inherit an ignored one.
func (a App) Main() {
	launch.Become()
	args := os.Args[1:]
	if a.hasJob(args) {
		os.Exit(a.Run(context.Background(), args, os.Stdout, os.Stderr))
	}
	// A write to a closed pipe (quorumlock demo | head) must fail, not end the process before its cleanup.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := a.Run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func (a App) hasJob(args []string) bool {
	return len(args) > 0 && slices.ContainsFunc(a.Commands, func(c Command) bool { return c.Job && c.Name == args[0] })
}

// Run carries out a command line and returns the exit code. At the end of ctx the command cleans up, and
// returns ExitInterrupted.
func (a App) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{Writer: stdout}
	p := &Program{app: a, Stdout: out, Stderr: stderr}
	switch {
	case len(args) == 0:
		p.Stdout, args, p.code = stderr, []string{"help"}, ExitUsage
	case args[0] == "-version" || args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	case a.hasJob(args): // the job is not for the library
		dashes := slices.Index(args, "--")
		if dashes >= 0 && !slices.Equal(args[dashes+1:], []string{completionRequest}) { // otherwise the shell completes --
			args, p.Job = args[:dashes], args[dashes:]
		}
	}
	if p.Job == nil && args[len(args)-1] == completionRequest {
		p.Stdout = withoutBackquotes{out}
	}
	if err := p.root().Run(ctx, append([]string{"quorumlock"}, args...)); err != nil {
		if args[0] == "completion" {
			p.Misused("completion needs one of bash, zsh, fish, pwsh")
		} else {
			p.Misused("there is no help for that") // the errors of commands do not come here
		}
	}
	if out.err != nil && !errors.Is(out.err, syscall.EPIPE) { // that reader had enough
		fmt.Fprintf(stderr, "quorumlock: the output is incomplete: %v\n", out.err)
		p.code = cmp.Or(p.code, ExitFailed)
	}
	return p.code
}

// output remembers the first error of its writes.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	o.err = cmp.Or(o.err, err)
	return n, err
}

func (p *Program) root() *urfave.Command {
	root := &urfave.Command{
		Name: "quorumlock", Usage: "one lock over several independent Redis masters", Description: p.app.Description,
		Writer: p.Stdout, ErrWriter: p.Stderr, ExitErrHandler: func(context.Context, *urfave.Command, error) {},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: p.completionCommand,
		OnUsageError: func(_ context.Context, _ *urfave.Command, err error, _ bool) error {
			p.Misused((&Flags{}).explain(err).Error())
			return nil
		},
		Action: func(_ context.Context, cmd *urfave.Command) error {
			word := cmd.Args().First()
			said, names := Repeat(word), []string(nil)
			for _, known := range cmd.Commands {
				names = append(names, known.Name)
			}
			if hint := p.app.Hints[word]; hint != "" {
				said += "; " + hint
			} else if said != "" {
				said += didYouMean(word, names)
			}
			p.Misused("there is no such command" + said)
			return nil
		},
	}
	for _, c := range p.app.Commands {
		root.Commands = append(root.Commands, p.build("", c))
	}
	root.Commands = append(root.Commands, p.manCommand())
	return root
}

// build returns a command as the library takes it; within is the name of its group, and a space.
func (p *Program) build(within string, c Command) *urfave.Command {
	if c.Below != nil {
		return p.group(c)
	}
	name, arguments, one, flags := within+c.Name, c.Arguments, 1, &Flags{}
	do := c.Define(flags)
	if arguments == "" {
		arguments = " " // or the library makes some up
	}
	begin := func() { p.Command, p.misuse = name, c.Misuse }
	return &urfave.Command{
		Name: c.Name, Usage: c.Usage, Description: c.Help, ArgsUsage: arguments, Flags: flags.all,
		StopOnNthArg: &one, HideHelpCommand: true, // help may be the name of a lock
		OnUsageError: func(_ context.Context, _ *urfave.Command, err error, _ bool) error {
			begin()
			p.Misused(fmt.Sprintf("%s: %v", name, flags.explain(err)))
			return nil
		},
		Action: func(ctx context.Context, cmd *urfave.Command) error {
			begin()
			args := cmd.Args().Slice()
			switch {
			case len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" && !looksLikeFlag(args[0]):
				p.Misused(name + ": unknown flag")
			case len(args) > 0 && c.Arguments == "":
				text := name + " takes no arguments"
				if slices.ContainsFunc(flags.all, func(f urfave.Flag) bool { return f.Names()[0] == "urls-file" }) {
					text += ": the URLs come from QUORUMLOCK_URLS or -urls-file"
				}
				p.Misused(text)
			default:
				p.code = do(ctx, p, args)
			}
			return nil
		},
	}
}

func (p *Program) group(c Command) *urfave.Command {
	var names []string
	for _, below := range c.Below {
		names = append(names, below.Name)
	}
	wrong := func(given string) error {
		said := c.Name + " needs one of " + strings.Join(names, ", ")
		if text := Repeat(given); text != "" {
			said += ", not" + text[1:]
		}
		p.Misused(said)
		return nil
	}
	group := &urfave.Command{
		Name: c.Name, Usage: c.Usage, HideHelpCommand: true,
		OnUsageError: func(context.Context, *urfave.Command, error, bool) error { return wrong("") },
		Action:       func(_ context.Context, cmd *urfave.Command) error { return wrong(cmd.Args().First()) },
	}
	for _, below := range c.Below {
		group.Commands = append(group.Commands, p.build(c.Name+" ", below))
	}
	return group
}

// Misused prints in one line what is wrong with the command line, and returns the exit code for it.
func (p *Program) Misused(wrong string) int {
	help := "help"
	if p.Command != "" {
		help = p.Command + " -h"
	}
	fmt.Fprintf(p.Stderr, "quorumlock: %s (see quorumlock %s)\n", wrong, help)
	p.code = cmp.Or(p.misuse, ExitUsage)
	return p.code
}
