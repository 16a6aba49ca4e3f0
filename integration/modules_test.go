package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// usersModules are the modules that a program's graph may gain from importing redlock and fence. A new one is
// every user's to audit: add it only for the library's sake.
var usersModules = []string{
	"github.com/gomodule/redigo",
	"github.com/hashicorp/errwrap",
	"github.com/hashicorp/go-multierror",
	"golang.org/x/sync",
	"golang.org/x/sys",

	// The command reads its line by it; it requires nothing but testify.
	"github.com/urfave/cli/v3",

	// The tests alongside the library use the rest. None of it is compiled into a program.
	"github.com/cockroachdb/datadriven",
	"github.com/davecgh/go-spew",
	"github.com/pmezard/go-difflib",
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"gopkg.in/yaml.v3",
}

func TestModulesOfAUser(t *testing.T) {
	t.Parallel()
	root := testkit.Got(filepath.Abs(".."))(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": `module example.com/user

go 1.26.0

require github.com/quorumlock/quorumlock v0.0.0

replace github.com/quorumlock/quorumlock => "` + filepath.ToSlash(root) + `"
`,
		"go.sum": testkit.Read(t, "../go.sum"),
		"main.go": "package main\n\nimport (\n\t_ \"github.com/quorumlock/quorumlock/fence\"\n" +
			"\t_ \"github.com/quorumlock/quorumlock/redlock\"\n)\n\nfunc main() {}\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-C", dir, "-mod=mod", "-m",
		"-f", "{{if not .Main}}{{.Path}}{{end}}", "all")
	list.Env = append(os.Environ(), "GOWORK=off")
	list.Stderr = os.Stderr
	listed := testkit.Got(list.Output())(t)
	modules := strings.Fields(string(listed))
	testkit.Require(t, slices.Contains(modules, "github.com/quorumlock/quorumlock"), "the list is not a user's: %q", modules)
	for _, module := range modules {
		testkit.Check(t, module == "github.com/quorumlock/quorumlock" || slices.Contains(usersModules, module),
			"a program that imports redlock and fence gets %s into its module graph", module)
	}
}
