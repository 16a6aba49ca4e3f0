package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) { clitest.Main(m, app()) }

// rows returns the rows of the table that carry something out, by their full names.
func rows() map[string]cli.Command {
	all := map[string]cli.Command{}
	for _, row := range commands {
		if row.Below == nil {
			all[row.Name] = row
		}
		for _, below := range row.Below {
			all[row.Name+" "+below.Name] = below
		}
	}
	return all
}

// A row of the table is enough: users find the subcommand wherever they look, and the manual says what the help says.
func TestUsersFindEachSubcommand(t *testing.T) {
	t.Parallel()
	page := testkit.Read(t, filepath.Join("..", "..", "docs", "operations.md"))
	_, list, _ := strings.Cut(page, "\nIts subcommands: ")
	list, _, _ = strings.Cut(list, "\n\n")
	source, _ := clitest.Command(t, cli.ExitOK, "man")
	manual := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "").Replace(source)
	for name, row := range rows() {
		words := strings.Fields(name)
		group := words[:len(words)-1]
		overview, _ := clitest.Command(t, cli.ExitOK, append(slices.Clone(group), "-h")...)
		help, _ := clitest.Command(t, cli.ExitOK, append(slices.Clone(words), "-h")...)
		completion := clitest.NewProcess(os.Args[0], append(slices.Clone(group), "--generate-shell-completion")...).Begin(t) // the library looks at os.Args
		completion.Await(t, cli.ExitOK)
		for place, is := range map[string]struct{ text, has string }{
			"the table: its Help":            {row.Help, "Example"},
			"the table: the example of Help": {row.Help, " quorumlock " + name},
			"the table: the exit codes":      {row.Help, "\nExit codes: "},
			"the help's list":                {overview, "   " + row.Name + " "},
			"its help":                       {help, row.Usage},
			"the end of its help":            {strings.ReplaceAll(help, "\n   ", "\n"), row.Help},
			"the manual":                     {manual, ".SS quorumlock " + name},
			"the completion":                 {"\n" + strings.ReplaceAll(completion.Out.String(), ":", "\n"), "\n" + row.Name + "\n"},
			"docs/operations.md's list":      {list, "`" + row.Name + "`"},
		} {
			testkit.Check(t, strings.Contains(is.text, is.has), "%s is missing in %s: no %q", name, place, is.has)
		}
		_, options, _ := strings.Cut(help, "OPTIONS:\n")
		reads := slices.Contains([]string{"run", "status", "top", "unlock", "check", "members show"}, name)
		testkit.Check(t, strings.Contains(options, masters.URLsVariable) == reads,
			"%s reads %s: %v, but its help says:%s", name, masters.URLsVariable, reads, options)
		for line := range strings.Lines(row.Help) {
			clitest.Contains(t, manual, line)
		}
		for option := range strings.Lines(options) {
			flag, usage, _ := strings.Cut(strings.TrimSpace(option), "  ")
			clitest.Contains(t, manual, ".B "+flag+"\n"+strings.TrimSpace(usage)+"\n")
		}
	}
	for line := range strings.Lines(source) { // a request that troff does not know is dropped
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		testkit.Check(t, !strings.HasPrefix(line, ".") || strings.Contains(" .TH .SH .SS .TP .B .PP .br .nf .fi ", " "+request+" "),
			"no request: %q", line)
	}
}
