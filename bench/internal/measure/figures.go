package measure

import (
	"cmp"
	"slices"
)

// Alternate runs every side once a round, in turns, and each second round backwards, so that a busy
// machine slows all sides alike. The result is indexed by side, then by round.
func Alternate[T any](sides, rounds int, run func(side int) (T, error)) ([][]T, error) {
	all := make([][]T, sides)
	for round := range rounds {
		for i := range sides {
			side := i
			if round%2 == 1 {
				side = sides - 1 - i
			}
			result, err := run(side)
			if err != nil {
				return nil, err
			}
			all[side] = append(all[side], result)
		}
	}
	return all, nil
}

// Percentile returns the value that the part p of all, from 0 to 1, does not exceed; the zero value
// for no values.
func Percentile[T cmp.Ordered](p float64, all []T) T { return Percentiles(all, p)[0] }

// Percentiles is Percentile for several parts.
func Percentiles[T cmp.Ordered](all []T, parts ...float64) []T {
	sorted, at := slices.Sorted(slices.Values(all)), make([]T, len(parts))
	for i, p := range parts {
		if len(sorted) > 0 {
			at[i] = sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
		}
	}
	return at
}

// Median returns the upper median of an even number of values.
func Median[T cmp.Ordered](all []T) T { return Percentile(0.5, all) }

// Of takes one figure from each sample.
func Of[S, T any](samples []S, figure func(S) T) []T {
	all := make([]T, len(samples))
	for i, s := range samples {
		all[i] = figure(s)
	}
	return all
}

// Ratios returns the rounds' own ratios: the two sides of a round ran next to each other.
func Ratios[T ~int64 | ~float64](ours, theirs []T) []float64 {
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		ratios = append(ratios, float64(ours[i])/float64(theirs[i]))
	}
	return ratios
}
