package main

import (
	"errors"
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// choiceNames are the sides of the choices, in the order of the table and of the colours.
var choiceNames = []string{ours, rival, "redsync over go-redis", "rueidislock", oneMaster}

// picture is a file with a plot of the choices.
type picture struct {
	file  string
	title string
	plot  *plot.Plot
}

// pictures plots the choices that were measured.
func (r *report) pictures() (all []picture, err error) {
	for _, n := range choiceMasters {
		p := newPlot("callers", "lock and unlock per second")
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks(r.callers)
		drawn, failed := r.lines(p, func(side string) (points plotter.XYs) {
			for _, callers := range r.callers {
				points = add(points, r.results[place{choiceTest(callers), n}], reading{side, rate}, float64(callers), 1)
			}
			return points
		})
		p.Y.Min = 0
		err = errors.Join(err, failed)
		if drawn {
			all = append(all, picture{fmt.Sprintf("bench-throughput-%d.svg", n),
				fmt.Sprintf("Throughput over callers, N=%d", n), p})
		}
	}
	for _, callers := range []int{r.callers[0], r.usual()} {
		p := newPlot("percentile", "ms for lock and unlock")
		p.NominalX(string(p50), string(p90), string(p99), string(p999))
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		drawn, failed := r.lines(p, func(side string) (points plotter.XYs) {
			for i, percentile := range []figure{p50, p90, p99, p999} {
				o := r.results[place{choiceTest(callers), 3}]
				points = add(points, o, reading{side, percentile}, float64(i), 1e-6)
			}
			return points
		})
		err = errors.Join(err, failed)
		if drawn {
			all = append(all, picture{fmt.Sprintf("bench-latency-%d.svg", callers),
				fmt.Sprintf("Latency, N=3, %s", callersText(callers)), p})
		}
	}
	return all, err
}

// add appends a point for a reading that was measured.
func add(points plotter.XYs, o *outcome, r reading, x, scale float64) plotter.XYs {
	if o == nil {
		return points
	}
	y, measured := o.median(r)
	if !measured {
		return points
	}
	return append(points, plotter.XY{X: x, Y: y * scale})
}

func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// lines draws a line for each side that has points.
func (r *report) lines(p *plot.Plot, of func(side string) plotter.XYs) (drawn bool, err error) {
	for i, side := range choiceNames {
		points := of(side)
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return drawn, err
		}
		line.Color, line.Width = plotutil.Color(i), vg.Points(1.5)
		dots.Color, dots.Shape = plotutil.Color(i), draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(side, line, dots)
		drawn = true
	}
	return drawn, nil
}

// ticks marks the numbers of callers.
func ticks(callers []int) plot.ConstantTicks {
	var all plot.ConstantTicks
	for _, n := range callers {
		all = append(all, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
	}
	return all
}

func (p picture) save(dir string) error {
	return p.plot.Save(16*vg.Centimeter, 10*vg.Centimeter, filepath.Join(dir, p.file))
}
