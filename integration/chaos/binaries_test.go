//go:build unix

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// command is the kind of the operator's program.
const command = "quorumlock"

// binaries are the programs of contenders and of the operator. Each is built on its first use.
var binaries struct {
	mu    sync.Mutex
	dir   string
	built map[string]error
}

// program builds the program for a kind of contender, or the operator's, and returns its path. The program for redsync
// is in bench, a module of its own: it cannot be built while that module's requirements are out of
// reach.
func program(kind string) (string, error) {
	name, source, args := "own", "../contender/own", []string{"build"}
	switch kind {
	case "redsync":
		name, source, args = "redsync", "./contender", []string{"build", "-C", "../../bench"}
	case command:
		name, source, args = command, "./cmd/quorumlock", []string{"build", "-C", "../.."}
	}
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if binaries.dir == "" {
		var err error
		if binaries.dir, err = os.MkdirTemp("", "quorumlock-contenders-"); err != nil {
			return "", err
		}
		binaries.built = map[string]error{}
	}
	path := filepath.Join(binaries.dir, name)
	err, known := binaries.built[name]
	if !known {
		if *race {
			args = append(args, "-race")
		}
		out, failed := exec.Command("go", append(args, "-o", path, source)...).CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("build the program %s: %w: %s", name, failed, out)
		}
		binaries.built[name] = err
	}
	return path, err
}
