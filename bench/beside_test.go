package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// revisionBeside is the oldest tree that docs/compatibility.md lets run beside this one.
const revisionBeside = "ce8f1c8"

// Processes of an earlier version and of this one lock the same names on the same masters, as in a
// rolling deploy, and as in its way back.
func TestAnEarlierVersionRunsBeside(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	dir := t.TempDir()
	tree, old, this := filepath.Join(dir, "tree"), filepath.Join(dir, "old"), filepath.Join(dir, "this")
	command := func(dir, name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%v: %w: %s", cmd, err, out)
		}
		return err
	}
	if err := command(".", "git", "cat-file", "-e", revisionBeside+"^{commit}"); err != nil {
		t.Skipf("SKIPPED, needs the repository's history: %v", err)
	}
	// The program is that of this tree; all else is that of the revision.
	must(t, command("..", "sh", "-ec", `mkdir "$1"; git archive "$0" | tar -xC "$1"; mkdir -p "$1/bench/beside"; cp bench/beside/main.go "$1/bench/beside"`,
		revisionBeside, tree))
	must(t, command(filepath.Join(tree, "bench"), "go", "build", "-buildvcs=false", "-o", old, "./beside"))
	must(t, command(".", "go", "build", "-buildvcs=false", "-o", this, "./beside"))
	for name, programs := range map[string][]string{
		"the old founds": {old, this, old, this},
		"the new founds": {this, old, this, old},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contendBeside(t, programs)
		})
	}
}

// contendBeside lets the programs contend once the first has founded the deployment, and judges.
func contendBeside(t *testing.T, programs []string) {
	fleet, err := redistest.StartReal(3)
	must(t, err)
	defer func() { must(t, fleet.Stop()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*startBound)
	defer cancel()
	var events []history.Event
	next := func(from *json.Decoder) bool {
		var e history.Event
		err := from.Decode(&e)
		if err == nil {
			events = append(events, e)
		} else if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		return err == nil
	}
	var all []*json.Decoder
	for client, program := range programs {
		cmd := exec.CommandContext(ctx, program, append([]string{fmt.Sprint(client), "2s"}, fleet.URLs()...)...)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		defer func() { must(t, cmd.Wait()) }()
		all = append(all, json.NewDecoder(out))
		if client == 0 {
			next(all[0])
		}
	}
	for _, from := range all {
		for next(from) {
		}
	}
	for _, v := range history.Check(events, history.Options{HonestClocks: true}) {
		t.Error(v)
	}
	holds := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Kind != history.Acquired })
	slices.SortFunc(holds, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Return, b.Return))
	})
	passed := 0 // from one version to the other
	for i, e := range holds[1:] {
		if last := holds[i]; last.Name == e.Name && programs[last.Client] != programs[e.Client] {
			passed++
		}
	}
	t.Logf("%d locks, of which %d passed from one version to the other", len(holds), passed)
	if passed < 20 {
		t.Errorf("a lock passed %d times from one version to the other: too few to judge", passed)
	}
}
