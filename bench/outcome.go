package main

import (
	"fmt"

	"github.com/quorumlock/quorumlock/bench/internal/measure"
)

// place is a test with a number of masters.
type place struct {
	test string
	n    int
}

// outcome is what a test measured at a place. The sides of a round ran next to each other.
type outcome struct {
	rounds  map[string][]figures // by side
	details []string             // sentences without a full stop
	skipped string               // why nothing was measured
}

// results are the outcomes of a run.
type results map[place]*outcome

// reading is one figure of one side.
type reading struct {
	side string
	figure
}

func (o *outcome) all(r reading) []float64 {
	var values []float64
	for _, round := range o.rounds[r.side] {
		if value, measured := round[r.figure]; measured {
			values = append(values, value)
		}
	}
	return values
}

// median returns the median of the rounds; false if none measured the figure.
func (o *outcome) median(r reading) (float64, bool) {
	values := o.all(r)
	return measure.Median(values), len(values) > 0
}

// text is the median for people, empty if there is none.
func (o *outcome) text(r reading) string {
	value, measured := o.median(r)
	if !measured {
		return ""
	}
	return r.figure.text(value)
}

// ratio returns the median of the rounds' own ratios.
func (o *outcome) ratio(ours, beside reading) (float64, bool) {
	all := measure.Ratios(o.all(ours), o.all(beside))
	return measure.Median(all), len(all) > 0
}

// cpu is the processor time of a side, for people.
func (o *outcome) cpu(side string) string {
	callers, first := o.median(reading{side, callersCPU})
	masters, second := o.median(reading{side, mastersCPU})
	if !first || !second {
		return ""
	}
	return fmt.Sprintf("%.1f + %.1f", callers/1e3, masters/1e3)
}

func (o *outcome) tell(format string, args ...any) {
	o.details = append(o.details, fmt.Sprintf(format, args...))
}

// outcomeOf turns rounds of samples, by side, into an outcome.
func outcomeOf[S any](names []string, samples [][]S, of func(S) figures) *outcome {
	o := &outcome{rounds: map[string][]figures{}}
	for side, rounds := range samples {
		o.rounds[names[side]] = measure.Of(rounds, of)
	}
	return o
}
