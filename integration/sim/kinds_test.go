package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/scene"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// An entry of world.Kinds is all that a fault needs: plans and quorumtest.Explore draw it, and a scene names it. So does one that
// is added here.
func TestEachUserPlaysEachKind(t *testing.T) {
	before := world.Kinds
	defer func() { world.Kinds = before }()
	added := &world.Kind{Name: "moon", Says: "a master's data is what it was at the full moon", Takes: world.OfMaster | world.Lasts,
		Weight: 0.1, Forgets: true, Start: func(w *world.World, f world.Fault) func() {
			return func() { w.Masters[f.Master].Crash(fakeredis.LastSave); w.Masters[f.Master].Start() }
		}}
	for _, k := range append(slices.Clone(before), added) {
		var begun atomic.Int64
		counted := *k
		counted.Start = func(w *world.World, f world.Fault) func() { begun.Add(1); return k.Start(w, f) }
		world.Kinds = []*world.Kind{&counted}
		for user, play := range map[string]func(t *testing.T, k *world.Kind){
			"simulation": simulates, "Explore": explores, "scene": hasScene,
		} {
			t.Run(fmt.Sprint(k.Name, ", ", user), func(t *testing.T) {
				begun.Store(0)
				t.Run("plays", func(t *testing.T) { play(t, &counted) }) // which may be parallel
				none := k.Replaces && user != "simulation"               // nothing starts another process there
				testkit.Check(t, begun.Load() > 0 != none, "%d were played", begun.Load())
			})
		}
	}
}

// simulates judges the first plan with faults.
func simulates(t *testing.T, _ *world.Kind) {
	p := newPlan(1)
	for len(p.faults) == 0 {
		p = newPlan(p.seed + 1)
	}
	judge(t, p)
}

func explores(t *testing.T, _ *world.Kind) {
	quorumtest.Explore(t, 2, func(t *testing.T, masters *quorumtest.Masters) {
		locker := masters.Locker()
		for range 20 {
			if lock, err := locker.TryLock(t.Context(), "a"); err == nil {
				masters.Work(locker, time.Second)
				lock.Unlock(t.Context())
			}
			masters.Work(locker, 10*time.Second)
		}
	})
}

// hasScene plays a scene with the line of a fault.
func hasScene(t *testing.T, k *world.Kind) {
	if k.Replaces {
		return
	}
	f := world.Fault{Kind: k}
	if k.Takes&world.Lasts != 0 {
		f.Lasts = 10 * time.Second
	}
	file := filepath.Join(t.TempDir(), "fault.txt")
	text := fmt.Sprintf("masters 3\nprocess A\n%s\npass 20s\n----\n\n", f)
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	scene.Run(t, file, nil)
}
