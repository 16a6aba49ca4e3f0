package shell

import (
	"os/exec"
	"testing"
)

func TestKeep(t *testing.T) { b := build(t); exec.Command("cp", b.Path(), "/tmp/shell.bin").Run() }
