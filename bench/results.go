package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// place is where a figure stands in the output of the benchmarks.
type place struct {
	n    int // masters
	of   string
	lock string
	unit string
}

// results has the figures of each round.
type results map[place][]float64

var named = regexp.MustCompile(`^BenchmarkLock/n=(\d+)/([^/]+)/lock=([^/]+)/round=\d+\S*\s+\d+\s(.*)$`)

// read reads the output of go test -bench; facts are its lines of the form "key: value".
func read(from io.Reader) (found results, facts map[string]string, err error) {
	found, facts = results{}, map[string]string{}
	ended := ""
	in := bufio.NewScanner(from)
	for in.Scan() {
		if key, value, isFact := strings.Cut(in.Text(), ": "); isFact {
			facts[key] = value
		}
		if word := strings.TrimSpace(in.Text()); word == "PASS" || word == "FAIL" {
			ended = word
		}
		m := named.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, nil, err
		}
		figures := strings.Fields(m[4])
		for i := 0; i+1 < len(figures); i += 2 {
			value, err := strconv.ParseFloat(figures[i], 64)
			if err != nil {
				return nil, nil, fmt.Errorf("bench: %q: %w", in.Text(), err)
			}
			at := place{n, m[2], m[3], figures[i+1]}
			found[at] = append(found[at], value)
		}
	}
	if ended != "PASS" {
		err = errors.New("bench: the benchmarks failed")
	}
	return found, facts, errors.Join(err, in.Err())
}

// median is the upper one of an even number of values, and NaN of none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// ratio is the median of the rounds' own ratios: the two sides of a round ran next to each other.
func ratio(ours, theirs []float64) float64 {
	var all []float64
	for i := range min(len(ours), len(theirs)) {
		all = append(all, ours[i]/theirs[i])
	}
	return median(all)
}
