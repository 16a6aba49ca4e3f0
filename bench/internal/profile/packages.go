package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// entry is a package's share of a profile, with the shares of what it calls in the standard
// library.
type entry struct {
	name  string
	share float64
	calls map[string]float64 // by the function at the top of the stack
}

// most names the functions that take most of an entry.
func (e entry) most() string {
	names := slices.SortedFunc(maps.Keys(e.calls), func(a, b string) int {
		return cmp.Or(cmp.Compare(e.calls[b], e.calls[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(3, len(names))] {
		parts = append(parts, fmt.Sprintf("`%s` %.0f %%", name, 100*e.calls[name]))
	}
	return strings.Join(parts, ", ")
}

// rest is what no package outside of the standard library has called.
const rest = "scheduler, garbage collection, timers"

// byPackage shares a profile among packages, the largest share first. A sample is its innermost
// package's that is not of the standard library.
func byPackage(p *profile.Profile) []entry {
	value := len(p.SampleType) - 1
	entries := map[string]*entry{}
	var total float64
	for _, s := range p.Sample {
		total += float64(s.Value[value])
	}
	for _, s := range p.Sample {
		name, top := rest, ""
		for _, function := range stack(s) {
			if top == "" {
				top = function
			}
			if module := packageOf(function); !isStandard(module) {
				name = shortPackage(module)
				break
			}
		}
		e := entries[name]
		if e == nil {
			e = &entry{name: name, calls: map[string]float64{}}
			entries[name] = e
		}
		share := float64(s.Value[value]) / total
		e.share += share
		e.calls[shortFunction(top)] += share
	}
	var all []entry
	for _, e := range entries {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.name, b.name))
	})
	return all
}

// stack lists the functions of a sample, the innermost first.
func stack(s *profile.Sample) []string {
	var names []string
	for _, location := range s.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// isStandard reports whether a package is of the standard library, or of its extension.
func isStandard(path string) bool {
	return !strings.Contains(path, ".") || strings.HasPrefix(path, "golang.org/x/")
}

// packageOf returns "a.b/c" of "a.b/c.(*T[...]).Method".
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[")
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + name
}

func shortPackage(path string) string {
	return strings.TrimPrefix(path, "github.com/quorumlock/quorumlock/")
}

func shortFunction(function string) string {
	function, _, _ = strings.Cut(function, "[")
	return function[strings.LastIndexByte(function, '/')+1:]
}
