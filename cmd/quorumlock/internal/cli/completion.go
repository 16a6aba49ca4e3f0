package cli

import (
	"bytes"
	"context"
	"embed"
	"io"

	urfave "github.com/urfave/cli/v3"
)

// The completion scripts are our own. The library's evaluate the words of the line, so a line that is only being completed
// could write files and run commands.
//
//go:embed completion
var completions embed.FS

// withoutBackquotes writes what the library says of flags without the marks of their values.
type withoutBackquotes struct{ out io.Writer }

func (w withoutBackquotes) Write(text []byte) (int, error) {
	_, err := w.out.Write(bytes.ReplaceAll(text, []byte("`"), nil))
	return len(text), err
}

// completionCommand makes the library's command print our scripts.
func (p *Program) completionCommand(completion *urfave.Command) {
	completion.Hidden, completion.Usage = false, "print the completion script of a shell: bash, zsh, fish, pwsh"
	files := map[string]string{"bash": "bash.sh", "zsh": "zsh.sh", "fish": "fish.fish", "pwsh": "pwsh.ps1"}
	for _, shell := range completion.Commands {
		shell.Action = func(context.Context, *urfave.Command) error {
			script, _ := completions.ReadFile("completion/" + files[shell.Name])
			_, err := p.Stdout.Write(script)
			return err
		}
	}
}
