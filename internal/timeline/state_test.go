package timeline

import (
	"fmt"
	"math"
	"testing"
)

// Without colours each state has a letter, and a shape with a pattern, of its own.
func TestStatesDifferWithoutColours(t *testing.T) {
	seen := map[string]State{}
	for s := Up; s <= Clash; s++ {
		l, ok := looks[s]
		if !ok || l.word == "" || l.class == "" || l.ansi == "" {
			t.Errorf("state %d has no look: %+v", s, l)
		}
		shape := "full"
		switch s {
		case Waits:
			shape = "thin"
		case Up:
			shape = "outlined"
		}
		for _, key := range []string{"glyph " + string(l.glyph), "shape " + shape + l.pattern, "class " + l.class,
			"word " + l.word} {
			if other, taken := seen[key]; taken {
				t.Errorf("%v and %v share the %s", other, s, key)
			}
			seen[key] = s
		}
	}
	if got := State(42).String(); got != "State(42)" {
		t.Errorf("an unknown state is %q", got)
	}
}

// luminance is the relative luminance of WCAG 2.1.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var rgb [3]int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		t.Fatalf("%q is no colour: %v", colour, err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb[i]) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// The bounds are WCAG's: 4.5 for text, 3 for what must be told from its neighbours.
func TestColoursHaveContrastInBothModes(t *testing.T) {
	for mode, p := range map[string]palette{"light": light, "dark": dark} {
		for what, pair := range map[string]struct {
			a, b  string
			least float64
		}{
			"text":                       {p.ink, p.back, 4.5},
			"text on up":                 {p.ink, p.up, 4.5},
			"text on a band":             {p.ink, p.band, 4.5},
			"small text":                 {p.dim, p.back, 4.5},
			"text on a hold":             {p.on, p.hold, 4.5},
			"text on a clash":            {p.on, p.clash, 4.5},
			"a red verdict":              {p.clash, p.back, 4.5},
			"the edge of up":             {p.line, p.back, 3},
			"dead, cut off, waits":       {p.quiet, p.back, 3},
			"quarantine":                 {p.amber, p.back, 3},
			"frozen, hindered":           {p.ice, p.back, 3},
			"a hold":                     {p.hold, p.back, 3},
			"a clash":                    {p.clash, p.back, 3},
			"a clash on its band":        {p.clash, p.band, 3},
			"a hold beside another band": {p.hold, p.band, 3},
		} {
			a, b := luminance(t, pair.a), luminance(t, pair.b)
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < pair.least {
				t.Errorf("%s mode, %s: %s on %s has contrast %.2f, want %.1f", mode, what, pair.a, pair.b, ratio,
					pair.least)
			}
		}
	}
}
