package child

import (
	"os"
	"syscall"
)

// WriteProgram writes a program that the test is about to run. A process that another goroutine forked
// meanwhile would have the file open for writing, and until its exec nobody could run the program (ETXTBSY).
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}
