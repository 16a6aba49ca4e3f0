package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// BinaryVariable names, in the environment, the server that the package starts: the path of a
// redis-server or valkey-server. Without it redis-server is looked up on PATH.
const BinaryVariable = "REDIS_SERVER"

// ErrNoServer is what errors wrap when there is no redis-server on PATH and none is named.
var ErrNoServer = errors.New("redis-server is not on PATH, and " + BinaryVariable + " names none")

// versionBound is how long --version may take. It ends only a binary that hangs, not one on a busy machine.
const versionBound = time.Minute

// Binary is the executable of a server.
type Binary struct {
	Path    string
	Name    string // "redis-server" or "valkey-server", as it says itself
	Version string // its own number, as "7.0.15"
}

func (b Binary) String() string { return b.Name + " " + b.Version }

// FindBinary returns the server that [BinaryVariable] names, else the redis-server on PATH. The
// error wraps [ErrNoServer] when there is neither. A binary that is named and cannot be used is
// another error: tests must not be skipped for it.
func FindBinary() (Binary, error) {
	named := os.Getenv(BinaryVariable)
	path, err := exec.LookPath(cmp.Or(named, "redis-server"))
	switch {
	case err == nil:
		return newBinary(path)
	case named == "":
		return Binary{}, fmt.Errorf("redistest: %w: %w", ErrNoServer, err)
	}
	return Binary{}, fmt.Errorf("redistest: %s: %w", BinaryVariable, err)
}

// newBinary asks the executable for its version.
func newBinary(path string) (Binary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Binary{}, fmt.Errorf("redistest: %s --version: %w", path, err)
	}
	b, ok := parseVersion(string(out))
	if !ok {
		return Binary{}, fmt.Errorf("redistest: %s --version: no version in %q", path, out)
	}
	b.Path = path
	return b, nil
}

// parseVersion reads "Redis server v=7.0.15 sha=…" or "Valkey server v=8.0.1 sha=…".
func parseVersion(text string) (b Binary, ok bool) {
	product, rest, found := strings.Cut(text, " server v=")
	number, _, _ := strings.Cut(rest, " ")
	b = Binary{Name: strings.ToLower(product) + "-server", Version: strings.TrimSpace(number)}
	return b, found && product != "" && b.Version != ""
}
