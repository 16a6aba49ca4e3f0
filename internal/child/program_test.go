package child

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Programs are written and run while other goroutines fork. Without WriteProgram 1 of 20 would fail.
func TestWriteProgram(t *testing.T) {
	var over atomic.Bool
	var forking sync.WaitGroup
	defer forking.Wait()
	defer over.Store(true)
	for range 4 {
		forking.Go(func() {
			for !over.Load() {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	dir := t.TempDir()
	for i := range 100 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := WriteProgram(path, "#!/bin/sh\n"); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(path).Run(); err != nil {
			t.Fatalf("program %d: %v", i, err)
		}
	}
}
