// Package mutate runs a package's TestMutants on code that is edited: one mutant in a process of
// its own.
package mutate

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Edit replaces every place of a text in a file, whose path begins at the module's root.
type Edit struct{ File, Text, Now string }

var rule = flag.String("model.mutant", "", "search the setup of this mutant; TestMutants calls itself so")

// Rule returns the rule that the mutant leaves out, if this process has one's code.
func Rule() string { return *rule }

// Search compiles the caller's package with the edits, and runs TestMutants there. It returns what
// that prints. The text of more is appended to files, by their paths.
func Search(t *testing.T, rule string, edits []Edit, more map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	must(t, err)
	dir, texts, replaced := t.TempDir(), map[string]string{}, map[string]string{}
	for _, e := range edits {
		if texts[e.File] == "" {
			source, err := os.ReadFile(filepath.Join(root, e.File))
			must(t, err)
			texts[e.File] = string(source) + more[e.File]
		}
		if !strings.Contains(texts[e.File], e.Text) {
			t.Fatalf("%s has no %q any more", e.File, e.Text)
		}
		texts[e.File] = strings.ReplaceAll(texts[e.File], e.Text, e.Now)
	}
	for file, text := range texts {
		edited := filepath.Join(dir, fmt.Sprint(len(replaced), ".go"))
		replaced[filepath.Join(root, file)] = edited
		must(t, os.WriteFile(edited, []byte(text), 0o600))
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	must(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(overlay, list, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-v",
		"-run", "TestMutants", ".", "-model.mutant", rule).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
