package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// manCommand prints the manual page, for packages. It is made of the help, so it says the same.
func (p *Program) manCommand() *urfave.Command {
	man := p.build("", Command{Name: "man", Usage: "print the manual page", Define: func(*Flags) Action { return nil }})
	man.Hidden = true
	man.Action = func(_ context.Context, cmd *urfave.Command) error {
		printManual(p.Stdout, p.app.Version, cmd.Root())
		return nil
	}
	return man
}

func printManual(out io.Writer, version string, root *urfave.Command) {
	fmt.Fprintf(out, ".TH %s 1 \"\" \"%s %s\"\n", strings.ToUpper(root.Name), root.Name, version)
	fmt.Fprintf(out, ".SH NAME\n%s \\- %s\n", root.Name, roff(root.Usage))
	fmt.Fprintf(out, ".SH SYNOPSIS\n.B %s\n\\fIcommand\\fR [options] [arguments]\n.SH DESCRIPTION\n", root.Name)
	printText(out, root.Description)
	fmt.Fprintln(out, ".SH COMMANDS")
	for _, c := range root.Commands {
		printCommand(out, root.Name, c)
	}
}

// printCommand prints a command that carries something out, or those below it.
func printCommand(out io.Writer, name string, c *urfave.Command) {
	if c.Hidden || c.Name == "help" {
		return
	}
	if len(c.Commands) > 0 && c.Name != "completion" { // the shells' names are hidden
		for _, below := range c.Commands {
			printCommand(out, name+" "+c.Name, below)
		}
		return
	}
	line := name + " " + c.Name
	if len(c.Flags) > 0 {
		line += " [options]"
	}
	fmt.Fprintf(out, ".SS %s\n%s.\n", roff(strings.TrimSpace(line+" "+c.ArgsUsage)), roff(c.Usage))
	for _, flag := range c.Flags {
		spelling, usage, _ := strings.Cut(flag.String(), "\t")
		fmt.Fprintf(out, ".TP\n.B %s\n%s\n", roff(spelling), roff(usage))
	}
	fmt.Fprintln(out, ".PP")
	printText(out, c.Description)
}

// printText prints paragraphs. The line after the end of a sentence begins on a new line, and an indented line is printed
// as it is.
func printText(out io.Writer, text string) {
	last := ""
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && strings.HasSuffix(last, ".") {
			fmt.Fprintln(out, ".br")
		}
		last = line
		switch {
		case line == "":
			fmt.Fprintln(out, ".PP")
		case line[0] == ' ':
			fmt.Fprintf(out, ".PP\n.nf\n%s\n.fi\n", roff(line))
		default:
			fmt.Fprintln(out, roff(line))
		}
	}
}

// roff returns a line of text as the manual's source has it.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
