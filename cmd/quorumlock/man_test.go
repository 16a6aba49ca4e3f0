package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
)

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
		if strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .SS .TP .B .PP .br .nf .fi ", " "+request+" ") {
			t.Errorf("no request: %q", line)
		}
	}
}
