package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

// OfMasters returns, in Markdown, the masters' time for each of n things, by command. The time of a
// script includes its commands.
func OfMasters(used measure.Usage, n int, thing string) string {
	var b strings.Builder
	var inScripts time.Duration
	for _, name := range measure.ScriptCalls {
		inScripts += used.Commands[name].Time
	}
	fmt.Fprintf(&b, "The masters take %s of processor time for a %s, and %s of elapsed time for its scripts (more, "+
		"where other processes interrupt them). What scripts do not take is sockets, parsing and the event loop.\n\n",
		micros(used.Masters, n), thing, micros(inScripts, n))
	fmt.Fprintf(&b, "| masters | calls per %s | µs each | µs per %s |\n|---|---|---|---|\n", thing, thing)
	names := slices.SortedFunc(maps.Keys(used.Commands), func(a, b string) int {
		return cmp.Or(cmp.Compare(used.Commands[b].Time, used.Commands[a].Time), cmp.Compare(a, b))
	})
	for _, name := range names {
		c := used.Commands[name]
		if name == "info" || c.Time*100 < used.Masters {
			continue
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f |\n", name, float64(c.Calls)/float64(n),
			float64(c.Time)/float64(c.Calls)/1e3, float64(c.Time)/float64(n)/1e3)
	}
	return b.String()
}
