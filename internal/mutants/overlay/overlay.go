// Package overlay compiles test binaries in which shipped files are replaced by edited ones, with many mutants at once:
// in the package of an edited file, mutantNumber is the one that the process runs. Command mutants leaves out each branch
// so, and package mutate one rule at a time. Another kind of edit is another caller: where it differs it writes
// mutantNumber == N, or isMutant(N), which also says that the process came here.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	env        = "QUORUMLOCK_MUTANT"          // has the number of the mutant that a process runs, from 1
	envReached = "QUORUMLOCK_MUTANTS_REACHED" // names a file, which gets the numbers that isMutant was asked for
)

const numberFile = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantNumber, _   = strconv.Atoi(os.Getenv("` + env + `"))
	mutantsReached, _ = os.OpenFile(os.Getenv("` + envReached + `"), os.O_APPEND|os.O_WRONLY, 0)
	mutantsSeen       [1 << 13]atomic.Bool
)

func isMutant(number int) bool {
	if mutantsReached != nil && !mutantsSeen[number].Swap(true) {
		fmt.Fprintln(mutantsReached, number)
	}
	return mutantNumber == number
}
`

// Overlay is files that replace shipped ones.
type Overlay struct {
	dir      string
	replaced map[string]string
}

// New returns an overlay without files, which keeps them in that directory.
func New(dir string) *Overlay { return &Overlay{dir, map[string]string{}} }

// Put replaces a file, or adds one.
func (o *Overlay) Put(path, text string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if o.replaced[path] == "" {
		o.replaced[path] = filepath.Join(o.dir, fmt.Sprintf("%d-%s", len(o.replaced), filepath.Base(path)))
	}
	return os.WriteFile(o.replaced[path], []byte(text), 0o600)
}

// Edit replaces a file of a package by one whose mutants read mutantNumber, which it declares beside it.
func (o *Overlay) Edit(path, pkg, text string) error {
	if err := o.Put(path, text); err != nil {
		return err
	}
	return o.Put(filepath.Join(filepath.Dir(path), "mutant_number.go"), fmt.Sprintf(numberFile, pkg))
}

// Compile compiles the tests of a package, by its path below the module's directory, into a binary.
func (o *Overlay) Compile(ctx context.Context, module, pkg, binary string) error {
	list, err := json.Marshal(map[string]map[string]string{"Replace": o.replaced})
	if err != nil {
		return err
	}
	overlay := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-C", module, "-overlay", overlay, "-vet=off", "-c", "-ldflags=-s -w",
		"-o", binary, "./"+pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Environ returns the environment of a process that runs the mutant of that number; 0 for none.
func Environ(number int) []string { return append(os.Environ(), fmt.Sprint(env, "=", number)) }

// Reaching returns the environment of a process that leaves nothing out, and writes into the file which mutants it reaches.
func Reaching(file string) []string { return append(Environ(0), envReached+"="+file) }
