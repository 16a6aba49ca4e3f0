package cli

import (
	"bytes"
	"context"
	_ "embed" // of the scripts
	"io"

	urfave "github.com/urfave/cli/v3"
)

// The completion scripts are our own. The library's evaluate the words of the line, so a line
// that is only being completed could write files and run commands.
var (
	//go:embed completion/bash.sh
	bashCompletion string
	//go:embed completion/zsh.sh
	zshCompletion string
	//go:embed completion/fish.fish
	fishCompletion string
	//go:embed completion/pwsh.ps1
	pwshCompletion string
)

// withoutBackquotes writes what the library says of flags without the marks of their values.
type withoutBackquotes struct{ out io.Writer }

func (w withoutBackquotes) Write(text []byte) (int, error) {
	_, err := w.out.Write(bytes.ReplaceAll(text, []byte("`"), nil))
	return len(text), err
}

// completionCommand makes the library's command print our scripts.
func (p *Program) completionCommand(completion *urfave.Command) {
	completion.Hidden, completion.Usage = false, "print the completion script of a shell: bash, zsh, fish, pwsh"
	scripts := map[string]string{
		"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion, "pwsh": pwshCompletion,
	}
	for _, shell := range completion.Commands {
		shell.Action = func(context.Context, *urfave.Command) error {
			_, err := io.WriteString(p.Stdout, scripts[shell.Name])
			return err
		}
	}
}
