package main

import (
	"fmt"
	"strings"
)

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// choiceTables is empty if the choices were not measured.
func (r *report) choiceTables() string {
	var b strings.Builder
	for _, n := range choiceMasters {
		for _, side := range choiceNames {
			var cells []string
			for _, callers := range r.callers {
				o := r.results[place{choiceTest(callers), n}]
				if o == nil {
					continue
				}
				if _, measured := o.median(reading{side, rate}); !measured {
					continue
				}
				cells = append(cells, fmt.Sprintf("%s; %s; %s", o.text(reading{side, rate}), o.text(reading{side, p99}),
					o.cpu(side)))
			}
			if len(cells) == len(r.callers) {
				fmt.Fprintf(&b, "| %d | %s | %s |\n", n, side, strings.Join(cells, " | "))
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	head := "| N | |"
	for _, callers := range r.callers {
		head += " " + callersText(callers) + " |"
	}
	text := "Each cell: pairs per second; their p99; processor time of a pair in µs, callers + masters.\n" +
		"rueidislock and bsm/redislock are locks on one master: they do not survive its loss. The N of\n" +
		"rueidislock is its number of keys there: it needs a majority of them (KeyMajority).\n\n" +
		head + "\n|---|---|" + strings.Repeat("---|", len(r.callers)) + "\n" + b.String()
	pictures, err := r.pictures()
	if err != nil {
		return text
	}
	for _, p := range pictures {
		text += fmt.Sprintf("\n![%s](%s)\n", p.title, p.file)
	}
	return text + r.choiceFailures()
}

// choiceFailures says which pairs failed.
func (r *report) choiceFailures() string {
	var b strings.Builder
	for _, n := range choiceMasters {
		for _, callers := range r.callers {
			if o := r.results[place{choiceTest(callers), n}]; o != nil {
				for _, text := range o.details {
					fmt.Fprintf(&b, "- %s, N=%d: %s.\n", callersText(callers), n, text)
				}
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nPairs that failed:\n\n" + b.String()
}

// growths are the tables of growth.
var growths = []struct {
	test, what string
	times      int
}{
	{moreCallers, "callers", 1},
	{moreNames, "names in use, 16 callers", perStep},
	{moreHeld, "other locks held and renewed, 16 callers", perStep},
}

// growthTables is empty if no growth was measured.
func (r *report) growthTables() string {
	var b strings.Builder
	for _, g := range growths {
		o := r.results[place{g.test, 3}]
		if o == nil {
			continue
		}
		for _, step := range steps(r.growth, g.times) {
			fmt.Fprintf(&b, "| %s %s | %s | %s | %s | %s |\n", step, g.what, o.text(reading{step, rate}),
				o.text(reading{step, commands}), o.text(reading{step, traffic}), o.cpu(step))
		}
		for _, text := range o.details {
			fmt.Fprintf(&b, "| %s | | | | |\n", text)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "N=3, for each pair. Commands and bytes are those of all masters, sent and received. The last rows\n" +
		"include the renewals of the locks that the process holds: it renews each every 5 s.\n\n" +
		"| | pairs | commands | bytes | processor time |\n|---|---|---|---|---|\n" + b.String()
}
