package demo

import (
	"os"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/timeline"
)

// widest bounds the picture's lines on a wide terminal.
const widest = 120

const workerA, workerB = "worker A", "worker B"

func newChart(begun time.Time) *timeline.Recorder {
	return &timeline.Recorder{Now: func() time.Duration { return time.Since(begun) }}
}

func picture(chart *timeline.Recorder) *timeline.Picture {
	p := &timeline.Picture{Title: "One lock over five masters"}
	for i := range masterCount {
		p.Rows = append(p.Rows, chart.Rows(names[i])...)
	}
	p.Rows = slices.Concat(p.Rows, chart.Rows(workerA), chart.Rows(workerB))
	a, b := &p.Rows[masterCount], &p.Rows[masterCount+1]
	for _, one := range a.Spans {
		for _, other := range b.Spans {
			both := timeline.Span{From: max(one.From, other.From), To: min(one.To, other.To), State: timeline.Clash}
			if one.State == timeline.Holds && other.State == timeline.Holds && both.From < both.To {
				a.Spans, b.Spans = append(a.Spans, both), append(b.Spans, both)
			}
		}
	}
	return p
}

// lineStyle returns how wide lines may be on a terminal of this width, and whether they may have colours; without a
// terminal, 80 and no colours.
func lineStyle(terminal int) (width int, colour bool) {
	if terminal == 0 {
		return 80, false
	}
	return min(terminal, widest), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
