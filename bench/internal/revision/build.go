// Package revision builds and runs a program of this module at an earlier revision of the
// repository, beside the same program of this tree.
package revision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoHistory is returned for a revision that the repository lacks: a shallow clone, or no
// repository at all.
var ErrNoHistory = errors.New("the history lacks the revision")

// Build builds a program of this tree, a directory in bench/ with one file, at an earlier revision
// of everything else, and returns its path in dir. The working directory must be bench/. It writes
// nothing into the repository.
func Build(ctx context.Context, program, revision, dir string) (string, error) {
	top, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrNoHistory, revision, err)
	}
	if _, err := output(ctx, top, "git", "cat-file", "-e", revision+"^{commit}"); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrNoHistory, revision, err)
	}
	tree := filepath.Join(dir, "tree")
	archive := filepath.Join(dir, "tree.tar")
	if _, err := output(ctx, top, "git", "archive", "-o", archive, revision); err != nil {
		return "", err
	}
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", err
	}
	if _, err := output(ctx, tree, "tar", "-xf", archive); err != nil {
		return "", err
	}
	err = copyFile(filepath.Join(program, "main.go"), filepath.Join(tree, "bench", program, "main.go"))
	if err != nil {
		return "", err
	}
	return build(ctx, program, filepath.Join(tree, "bench"), filepath.Join(dir, revision))
}

// BuildThis builds the program of this tree.
func BuildThis(ctx context.Context, program, dir string) (string, error) {
	return build(ctx, program, ".", filepath.Join(dir, "this"))
}

func build(ctx context.Context, program, dir, to string) (string, error) {
	_, err := output(ctx, dir, "go", "build", "-buildvcs=false", "-o", to, "./"+program)
	return to, err
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("revision: %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
