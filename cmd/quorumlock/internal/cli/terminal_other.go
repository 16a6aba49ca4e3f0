//go:build !unix

package cli

// TerminalSize returns 0 and 0: here no file counts as a terminal.
func TerminalSize(any) (width, height int) { return 0, 0 }
