// Package profile shows where the time and the memory go.
package profile

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// OfLoad runs a load, after a first one in which connections are made, and shows where the
// processor time of the callers' process and of the masters goes, in Markdown.
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
	return ofCallers(parsed, sample) + "\n" + OfMasters(sample.Usage, sample.Pairs, "pair"), nil
}

func micros(total time.Duration, of int) string {
	return fmt.Sprintf("%.1f µs", float64(total)/float64(of)/1e3)
}

// ofCallers shares the processor time that the system has counted by the samples of the profile.
func ofCallers(p *profile.Profile, s measure.Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A pair takes %s, and %s of the callers' processor time:\n\n", micros(s.Elapsed, s.Pairs),
		micros(s.Usage.Callers, s.Pairs))
	b.WriteString("| callers | share | µs per pair | of all, most in |\n|---|---|---|---|\n")
	for _, e := range byPackage(p) {
		if e.share < 0.02 {
			break
		}
		fmt.Fprintf(&b, "| %s | %.0f %% | %.1f | %s |\n", e.name, 100*e.share,
			e.share*float64(s.Usage.Callers)/float64(s.Pairs)/1e3, e.most())
	}
	return b.String()
}
