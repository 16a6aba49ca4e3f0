// Package profile shows where the time and the memory go.
package profile

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// OfLoad runs a load, after a first one in which connections are made, and tells where the processor
// time of the callers' process and of the masters goes, in Markdown.
func OfLoad(ctx context.Context, load measure.Load, p peers.Peer) (string, error) {
	warm := load
	warm.For /= 4
	if _, err := warm.Run(ctx, p); err != nil {
		return "", err
	}
	var taken bytes.Buffer
	if err := pprof.StartCPUProfile(&taken); err != nil {
		return "", err
	}
	sample, err := load.Run(ctx, p)
	pprof.StopCPUProfile()
	if err != nil {
		return "", err
	}
	parsed, err := profile.Parse(&taken)
	if err != nil {
		return "", err
	}
	return ofCallers(parsed, sample) + "\n" + ofMasters(sample), nil
}

func perPair(total time.Duration, s measure.Sample) string {
	return fmt.Sprintf("%.1f µs", float64(total)/float64(s.Pairs)/1e3)
}

// ofCallers shares the processor time that the system has counted by the samples of the profile.
func ofCallers(p *profile.Profile, s measure.Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A pair takes %s, and %s of the callers' processor time:\n\n", perPair(s.Elapsed, s),
		perPair(s.Usage.Callers, s))
	b.WriteString("| callers | share | µs per pair | of this, most |\n|---|---|---|---|\n")
	for _, e := range byPackage(p) {
		if e.share < 0.02 {
			break
		}
		fmt.Fprintf(&b, "| %s | %.0f %% | %.1f | %s |\n", e.name, 100*e.share,
			e.share*float64(s.Usage.Callers)/float64(s.Pairs)/1e3, e.most())
	}
	return b.String()
}

// ofMasters tells the time of each command. That of a script includes its commands.
func ofMasters(s measure.Sample) string {
	var b strings.Builder
	var inScripts time.Duration
	for _, name := range measure.ScriptCalls {
		inScripts += s.Usage.Commands[name].Time
	}
	fmt.Fprintf(&b, "The masters' processor time of a pair is %s in all, of which %s in scripts; the rest is sockets, "+
		"parsing and the event loop:\n\n", perPair(s.Usage.Masters, s), perPair(inScripts, s))
	b.WriteString("| masters | calls per pair | µs each | µs per pair |\n|---|---|---|---|\n")
	names := slices.SortedFunc(maps.Keys(s.Usage.Commands), func(a, b string) int {
		return cmp.Compare(s.Usage.Commands[b].Time, s.Usage.Commands[a].Time)
	})
	for _, name := range names {
		c := s.Usage.Commands[name]
		if name == "info" || c.Time*100 < s.Usage.Masters {
			continue
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f |\n", name, float64(c.Calls)/float64(s.Pairs),
			float64(c.Time)/float64(c.Calls)/1e3, float64(c.Time)/float64(s.Pairs)/1e3)
	}
	return b.String()
}
