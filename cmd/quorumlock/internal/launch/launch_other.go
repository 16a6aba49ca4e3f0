//go:build !unix

package launch

// Become does nothing: there is no Start on this system.
func Become() {}
