package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) { clitest.Main(m, app()) }

// A message says what is wrong with which word, but repeats no value.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says string
		args []string
	}{
		{`there is no such command: "lock" (`, []string{"lock"}},
		{`there is no such command: "statsu"; did you mean status? (`, []string{"statsu"}},
		{`check: unknown flag: "-timout"; did you mean -timeout? (`, []string{"check", "-timout", "1s", "redis://127.0.0.1"}},
		{`check: unknown flag: "-tiemout"; did you mean -timeout? (`, []string{"check", "-tiemout", "1s", "redis://127.0.0.1"}},
		{`check: unknown flag: "-timeuot"; did you mean -timeout? (`, []string{"check", "--timeuot=" + clitest.Secret}},
		{"check: unknown flag (", []string{"check", "---" + clitest.Secret}},
		{"check: unknown flag (", []string{"check", "-=" + clitest.Secret}},
		{"check: unknown flag (", []string{"check", "-" + clitest.Secret + "@127.0.0.1"}},
		{"admit: unknown flag (", []string{"admit", "-yes", "-redis://:" + clitest.Secret + "@127.0.0.1"}},
		{"check: -timeout needs a duration", []string{"check", "-timeout", clitest.Secret}},
		{"admit: -max-lease needs a duration", []string{"admit", "-max-lease=" + clitest.Secret, "redis://127.0.0.1"}},
		{"check: flag needs an argument: -timeout (", []string{"check", "-timeout"}},
		{"admit: -yes is given alone", []string{"admit", "-yes=" + clitest.Secret, "redis://127.0.0.1"}},
		{"there is no such command (", []string{"redis://:" + clitest.Secret + "@127.0.0.1"}},
		{"there is no such command (", []string{":" + clitest.Secret + "@127.0.0.1"}},
		{"demo takes no arguments", []string{"demo", "now"}},
		{"version takes no arguments", []string{"version", "now"}},
		{"check needs the URL of at least one master: as an argument, by -urls-file, or in QUORUMLOCK_URLS", []string{"check"}},
		{"check takes URLs as arguments or from -urls-file, not from both", []string{"check", "-urls-file", "f", "redis://127.0.0.1"}},
		{"completion needs one of bash, zsh, fish, pwsh", []string{"completion", "tcsh"}},
		{`check: unknown flag: "-yes"`, []string{"check", "-yes", "redis://127.0.0.1"}},
		{"check: -timeout needs a duration", []string{"check", "-timeout", "redis://:" + clitest.Secret + "@127.0.0.1"}},
		{"admit needs the URL of at least one master: as an argument, or by -urls-file; it does not read QUORUMLOCK_URLS",
			[]string{"admit"}},
		{"admit needs the URL", []string{"admit", "-yes"}},
		{`members needs one of show, add, remove, commit, abort, not "list"`, []string{"members", "list"}},
		{"members needs one of show, add, remove, commit, abort (", []string{"members", "redis://:" + clitest.Secret + "@h"}},
		{"members needs one of show, add, remove, commit, abort (", []string{"members"}},
	} {
		stdout, stderr := clitest.Command(t, cli.ExitUsage, test.args...)
		help := "(see quorumlock help)\n"
		if slices.Contains([]string{"demo", "version", "check", "admit"}, test.args[0]) {
			help = "(see quorumlock " + test.args[0] + " -h)\n"
		}
		clitest.Contains(t, stderr, "quorumlock: "+test.says, help)
		testkit.Check(t, stdout == "" && strings.Count(stderr, "\n") == 1 && !strings.Contains(stderr, clitest.Secret),
			"%q: stdout %q, stderr %q", test.args, stdout, stderr)
	}
	_, stderr := clitest.Command(t, cli.ExitUsage)
	clitest.Contains(t, stderr, "COMMANDS:", "   demo ", "   check ", "   admit ", "Exit codes, ")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		printed, _ := clitest.Command(t, cli.ExitOK, arg)
		clitest.Contains(t, printed, "quorumlock ", runtime.Version())
	}
}

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

// A row of the table is enough: users find the subcommand wherever they look.
func TestUsersFindEachSubcommand(t *testing.T) {
	t.Parallel()
	page := testkit.Read(t, filepath.Join("..", "..", "docs", "operations.md"))
	_, list, _ := strings.Cut(page, "\n## Subcommands\n")
	list, _, _ = strings.Cut(list, "\n## ")
	listed := strings.Count(list, "\n| `") - 1 // the first is the head
	testkit.Equal(t, listed, len(rows()), "subcommands that docs/operations.md lists")
	manual, _ := clitest.Command(t, cli.ExitOK, "man")
	manual = strings.ReplaceAll(manual, `\-`, "-")
	for name, row := range rows() {
		words := strings.Fields(name)
		group := words[:len(words)-1]
		overview, _ := clitest.Command(t, cli.ExitOK, append(slices.Clone(group), "-h")...)
		help, _ := clitest.Command(t, cli.ExitOK, append(slices.Clone(words), "-h")...)
		completion := clitest.NewProcess(os.Args[0], append(slices.Clone(group), "--generate-shell-completion")...).Begin(t) // the library looks at os.Args
		completion.Await(t, cli.ExitOK)
		for place, is := range map[string]struct{ text, has string }{
			"the table: its Help":             {row.Help, "Example"},
			"the table: the example of Help":  {row.Help, " quorumlock " + name},
			"the table: the exit codes":       {row.Help, "\nExit codes: "},
			"the help's list":                 {overview, "   " + row.Name + " "},
			"its help":                        {help, row.Usage},
			"the end of its help":             {strings.ReplaceAll(help, "\n   ", "\n"), row.Help},
			"the manual":                      {manual, ".SS quorumlock " + name},
			"the completion":                  {"\n" + strings.ReplaceAll(completion.Out.String(), ":", "\n"), "\n" + row.Name + "\n"},
			"docs/operations.md, Subcommands": {list, "| `" + name + "` | " + row.Usage + " |\n"},
		} {
			testkit.Check(t, strings.Contains(is.text, is.has), "%s is missing in %s: no %q", name, place, is.has)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	// The help says where the URLs come from, and where they do not.
	for name := range rows() {
		help, _ := clitest.Command(t, cli.ExitOK, append(strings.Fields(name), "-h")...)
		_, options, _ := strings.Cut(help, "OPTIONS:")
		reads := slices.Contains([]string{"run", "status", "top", "unlock", "check", "members show"}, name)
		testkit.Check(t, strings.Contains(options, masters.URLsVariable) == reads,
			"%s reads %s: %v, but its help says:%s", name, masters.URLsVariable, reads, options)
	}
	for says, lines := range map[string][][]string{
		"   demo ":                        {{"help"}, {"-h"}, {"--help"}, {"-help"}, {"h"}},
		"under 40 s":                      {{"demo", "-h"}, {"demo", "--help"}, {"help", "demo"}},
		"--json            print JSON":    {{"check", "-h"}, {"check", "--help"}, {"check", "-timeout", "1s", "-h"}},
		"quorumlock admit [options] URL":  {{"admit", "-h"}, {"admit", "-yes", "--help"}, {"help", "admit"}},
		"quorumlock members [command":     {{"members", "-h"}, {"help", "members"}},
		"members add [options] NEW-URL U": {{"members", "add", "-h"}},
		"NAME[,NAME...] -- COMMAND":       {{"run", "-n", "-h"}, {"help", "run"}},
	} {
		for _, args := range lines {
			stdout, stderr := clitest.Command(t, cli.ExitOK, args...)
			clitest.Contains(t, stdout, says)
			testkit.Check(t, stderr == "", "%q: stderr %q", args, stderr)
		}
	}
	_, stderr := clitest.Command(t, cli.ExitUsage, "help", "nothing")
	clitest.Contains(t, stderr, "quorumlock: there is no help for that (see quorumlock help)\n")
}

// Where Go forbids SHA-1, the library locks, and the demo runs on real masters.
func TestWithoutSHA1(t *testing.T) {
	d := clitest.Deploy(t, 3, 2*time.Second)
	begin := func(args ...string) *clitest.Process {
		p := d.Prepare()
		p.Args, p.Env = append(p.Args[:1], args...), append(p.Env, "GODEBUG=fips140=only")
		return p.Begin(t)
	}
	begin("run", "-timeout", "10s", "-max-lease", "2s", "name", "--", "true").Await(t, cli.ExitOK)
	begin("check", "-timeout", "10s", "-max-lease", "2s").Await(t, cli.ExitOK)
	demo := begin("demo")
	testkit.Check(t, poll.Until(2*time.Minute, func() bool { return strings.Contains(demo.Out.String(), "ok     6 turns") }),
		"the demo does not lock: %s%s", &demo.Out, &demo.Errs)
	demo.Process.Signal(os.Interrupt)
	<-demo.Exited
}

// The manual has every command, every flag and every example of the help.
func TestManual(t *testing.T) {
	t.Parallel()
	manual, _ := clitest.Command(t, cli.ExitOK, "man")
	plain := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "").Replace(manual)
	for name, row := range rows() {
		clitest.Contains(t, plain, ".SS quorumlock "+name)
		for line := range strings.Lines(row.Help) {
			clitest.Contains(t, plain, line)
		}
		help, _ := clitest.Command(t, cli.ExitOK, append(strings.Fields(name), "-h")...)
		_, options, _ := strings.Cut(help, "OPTIONS:\n")
		for option := range strings.Lines(options) {
			flag, usage, _ := strings.Cut(strings.TrimSpace(option), "  ")
			clitest.Contains(t, plain, ".B "+flag+"\n"+strings.TrimSpace(usage)+"\n")
		}
	}
	for line := range strings.Lines(manual) { // a request that troff does not know is dropped
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		testkit.Check(t, !strings.HasPrefix(line, ".") || strings.Contains(" .TH .SH .SS .TP .B .PP .br .nf .fi ", " "+request+" "),
			"no request: %q", line)
	}
}
