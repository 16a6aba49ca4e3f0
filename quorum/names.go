package quorum

import (
	"slices"

	"github.com/quorumlock/quorumlock/scripts"
)

const maxNameLen = 4096

// checkNames returns why the names cannot be locked, or nil.
func checkNames(op string, names []string) error {
	switch {
	case len(names) == 0:
		return invalidf(op, names, "no names")
	case len(names) > scripts.MaxNames:
		return invalidf(op, names, "%d names are more than %d", len(names), scripts.MaxNames)
	}
	for i, name := range names {
		switch {
		case name == "":
			return invalidf(op, names, "name %d is empty", i+1)
		case len(name) > maxNameLen:
			return invalidf(op, names, "name %d has %d bytes, more than %d", i+1, len(name), maxNameLen)
		case scripts.Reserved(name) != "":
			return invalidf(op, names, "name %d begins with %q, which is for the library's own keys",
				i+1, scripts.Reserved(name))
		case slices.Contains(names[:i], name):
			return invalidf(op, names, "name %d is given twice", i+1)
		}
	}
	return nil
}
