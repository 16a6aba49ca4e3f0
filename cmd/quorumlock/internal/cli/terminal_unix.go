//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// TerminalSize returns the size of the terminal, 0 and 0 if the file is not a terminal.
func TerminalSize(of any) (width, height int) {
	if out, ok := of.(*output); ok {
		of = out.Writer
	}
	file, ok := of.(*os.File)
	if !ok {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	if size.Col == 0 || size.Row == 0 { // a terminal that does not know
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}
