package main

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

// figure is the name of something measured.
type figure string

// Times are in nanoseconds. Those of a load are for each pair, those of handoffs for each
// acquisition, those of held locks for each renewal on all masters.
const (
	rate       figure = "pairs per second"
	elapsed    figure = "time"
	callersCPU figure = "callers' processor time"
	mastersCPU figure = "masters' processor time"
	p50        figure = "p50"
	p90        figure = "p90"
	p99        figure = "p99"
	p999       figure = "p99.9"
	longest    figure = "longest"
	allocs     figure = "allocations"
	commands   figure = "commands"
	traffic    figure = "bytes"
	heap       figure = "heap"
	goroutines figure = "goroutines"
	memory     figure = "masters' memory"
)

// figures are what one round measured of one side.
type figures map[figure]float64

// ofPairs returns the figures of a load.
func ofPairs(s measure.Sample) figures {
	each := func(total float64) float64 { return total / float64(s.Pairs) }
	f := ofTimes(s.Took)
	f[rate] = float64(s.Pairs) / s.Elapsed.Seconds()
	f[elapsed] = each(float64(s.Elapsed))
	f[callersCPU] = each(float64(s.Usage.Callers))
	f[mastersCPU] = each(float64(s.Usage.Masters))
	f[allocs] = each(float64(s.Allocs))
	f[commands] = each(float64(s.Usage.Commands.Calls(measure.ScriptCalls...)))
	f[traffic] = each(float64(s.Usage.Bytes))
	return f
}

// ofTimes returns the percentiles.
func ofTimes(took []time.Duration) figures {
	at := measure.Percentiles(took, 0.5, 0.9, 0.99, 0.999, 1)
	f := figures{}
	for i, name := range []figure{p50, p90, p99, p999, longest} {
		f[name] = float64(at[i])
	}
	return f
}

// text is a value of the figure, for people.
func (f figure) text(value float64) string {
	switch f {
	case rate:
		return fmt.Sprintf("%.0f/s", value)
	case allocs:
		return fmt.Sprintf("%.2f", value)
	case commands:
		return fmt.Sprintf("%.3g", value)
	case goroutines:
		return fmt.Sprintf("%.0f", value)
	case heap, traffic, memory:
		return fmt.Sprintf("%.0f B", value)
	default:
		return micros(value)
	}
}

// micros is a time given in nanoseconds, for people.
func micros(nanos float64) string {
	if nanos >= float64(10*time.Millisecond) {
		return fmt.Sprintf("%.1f ms", nanos/1e6)
	}
	return fmt.Sprintf("%.1f µs", nanos/1e3)
}
