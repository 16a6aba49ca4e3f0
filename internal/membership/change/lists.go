package change

import (
	"slices"

	"github.com/quorumlock/quorumlock/scripts"
)

// HasAll reports whether every member of the other list is one of this list.
func HasAll(list, other *scripts.List) bool {
	return !slices.ContainsFunc(other.Names(), func(name string) bool { return !list.Has(name) })
}

// With returns the list with one more member.
func With(list *scripts.List, name string) *scripts.List {
	return scripts.NewList(append(slices.Clone(list.Names()), name)...)
}

// Without returns the list without that member.
func Without(list *scripts.List, name string) *scripts.List {
	return scripts.NewList(slices.DeleteFunc(slices.Clone(list.Names()), func(member string) bool { return member == name })...)
}
