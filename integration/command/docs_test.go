package command_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// shellBlocks returns the sh and console blocks of a page in docs/, by the nearest heading.
func shellBlocks(ts *testscript.TestScript, page string) map[string]string {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	ts.Check(err)
	found, heading, block := map[string]string{}, "", false
	for line := range strings.Lines(string(text)) {
		switch {
		case !block && strings.HasPrefix(line, "#"):
			_, heading, _ = strings.Cut(strings.TrimSpace(line), " ")
		case strings.HasPrefix(line, "```"):
			block = line == "```sh\n" || line == "```console\n"
		case block:
			found[heading] += strings.TrimPrefix(line, "$ ")
		}
	}
	return found
}
