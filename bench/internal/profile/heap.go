package profile

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/google/pprof/profile"
)

// OfHeap says which packages allocated the memory that n things hold, in Markdown.
func OfHeap(n int) (string, error) {
	runtime.GC()
	var taken bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&taken, 0); err != nil {
		return "", err
	}
	p, err := profile.Parse(&taken)
	if err != nil {
		return "", err
	}
	var total float64
	for _, s := range p.Sample {
		total += float64(s.Value[len(p.SampleType)-1])
	}
	var b strings.Builder
	b.WriteString("| heap | share | B each | of this, most |\n|---|---|---|---|\n")
	for _, e := range byPackage(p) {
		if e.share < 0.02 {
			break
		}
		fmt.Fprintf(&b, "| %s | %.0f %% | %.0f | %s |\n", e.name, 100*e.share, e.share*total/float64(n), e.most())
	}
	return b.String(), nil
}
