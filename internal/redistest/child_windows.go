package redistest

import "syscall"

// Windows cannot halt a process by a signal: os.Process.Signal refuses these.
const (
	freezeSignal = syscall.Signal(-1)
	thawSignal   = syscall.Signal(-2)
)

func childAttributes() *syscall.SysProcAttr { return nil }
