package main

import (
	"strings"
	"testing"
)

// The manual has every command, every flag and every example of the help.
func TestManual(t *testing.T) {
	t.Parallel()
	manual, _ := command(t, exitOK, "man")
	plain := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "").Replace(manual)
	for name, text := range examples {
		contains(t, plain, ".SS quorumlock "+name)
		for line := range strings.Lines(text) {
			contains(t, plain, line)
		}
		help, _ := command(t, exitOK, append(strings.Fields(name), "-h")...)
		_, options, _ := strings.Cut(help, "OPTIONS:\n")
		for option := range strings.Lines(options) {
			flag, usage, _ := strings.Cut(strings.TrimSpace(option), "  ")
			contains(t, plain, ".B "+flag+"\n"+strings.TrimSpace(usage)+"\n")
		}
	}
	for line := range strings.Lines(manual) { // a request that troff does not know is dropped
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .SS .TP .B .PP .br .nf .fi ", " "+request+" ") {
			t.Errorf("no request: %q", line)
		}
	}
}
