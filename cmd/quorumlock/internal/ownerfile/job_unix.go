//go:build unix && !linux

package ownerfile

// isOther returns false: this system's kill(2) cannot tell a group from a later one with the same number.
func (Job) isOther() bool { return false }

func namespace() string { return "" }

func started(int) string { return "" }
