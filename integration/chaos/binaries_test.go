//go:build unix

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// binaries are the contenders' programs. Each is built on its first use.
var binaries struct {
	mu    sync.Mutex
	dir   string
	built map[string]error
}

// program builds the program for a kind of contender and returns its path. The program for redsync
// is in bench, a module of its own: it cannot be built while that module's requirements are out of
// reach.
func program(kind string) (string, error) {
	name, args := "own", []string{"build"}
	if kind == "redsync" {
		name, args = "redsync", []string{"build", "-C", "../../bench"}
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
		if raceDetector {
			args = append(args, "-race")
		}
		source := map[string]string{"own": "../contender/own", "redsync": "./contender"}[name]
		out, failed := exec.Command("go", append(args, "-o", path, source)...).CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("build the contender %s: %w: %s", name, failed, out)
		}
		binaries.built[name] = err
	}
	return path, err
}
