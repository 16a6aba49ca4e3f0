package timeline

import "fmt"

// look is how a state is drawn. No two states have the same glyph, nor the same shape and pattern: colours
// are not needed to tell them apart.
type look struct {
	word    string // in the legend
	glyph   rune   // on a terminal
	ansi    string // the glyph's colour there
	class   string // in the SVG
	pattern string // what is drawn over the fill, in a square of 6 by 6; "" for nothing
}

var looks = map[State]look{
	Up:       {"up", '━', "32", "up", ""},
	Hindered: {"hindered", '-', "36", "hi", `<path d="M0 1.5h6M0 4.5h6"/>`},
	CutOff:   {"cut off", '/', "35", "cu", `<path d="M-1 7L7-1M-1 1L1-1M5 7L7 5"/>`},
	Quarantine: {"in quarantine, grants nothing", '~', "33", "qu",
		`<circle cx="1.5" cy="1.5" r="1"/><circle cx="4.5" cy="4.5" r="1"/>`},
	Frozen: {"frozen", '*', "36", "fr", `<path d="M1.5 0v6M4.5 0v6"/>`},
	Dead:   {"dead", 'x', "90", "de", `<path d="M0 0L6 6M6 0L0 6"/>`},
	Waits:  {"waits", '·', "90", "wa", ""},
	Holds:  {"holds the lock", '█', "34", "ho", ""},
	Clash:  {"two hold at once", '!', "1;31", "cl", `<path d="M-1-1L7 7M-1 5L1 7M5-1L7 1"/>`},
}

// String returns the word of the legend.
func (s State) String() string {
	if l, ok := looks[s]; ok {
		return l.word
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// palette is the colours of one mode. on is the text on holds and clashes, ink all other text.
type palette struct{ back, ink, dim, grid, up, line, quiet, amber, ice, hold, clash, on, band string }

var light = palette{back: "#ffffff", ink: "#1f2328", dim: "#59636e", grid: "#d1d9e0", up: "#dafbe1",
	line: "#2c7a3f", quiet: "#6e7781",
	amber: "#9a6700", ice: "#1b7c83", hold: "#0969da", clash: "#cf222e", on: "#ffffff", band: "#ffd7d5"}

var dark = palette{back: "#0d1117", ink: "#e6edf3", dim: "#9198a1", grid: "#30363d", up: "#12361f", line: "#3fb950",
	quiet: "#8b949e",
	amber: "#d29922", ice: "#56d4dd", hold: "#4493f8", clash: "#ff7b72", on: "#0d1117", band: "#4b1113"}

// variables returns the colours as CSS.
func (p palette) variables() string {
	return fmt.Sprintf("--back:%s;--ink:%s;--dim:%s;--grid:%s;--up:%s;--line:%s;--quiet:%s;--amber:%s;"+
		"--ice:%s;--hold:%s;--clash:%s;--on:%s;--band:%s",
		p.back, p.ink, p.dim, p.grid, p.up, p.line, p.quiet, p.amber, p.ice, p.hold, p.clash, p.on, p.band)
}

// rules is the rest of the style. What is behind a text surrounds it, so that no pattern cuts through it.
const rules = `.tl{font:12px system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}
.tl text{fill:var(--ink);stroke:var(--back);stroke-width:3px;stroke-linejoin:round;paint-order:stroke}
.tl .t{font-size:16px;font-weight:600}.tl .v{font-size:14px;font-weight:600}.tl .bad{fill:var(--clash)}
.tl .s{font-size:11px}.tl .d{fill:var(--dim)}.tl .h{fill:var(--dim);font-weight:600}
.tl .tup{stroke:var(--up)}.tl .tho{fill:var(--on);stroke:var(--hold)}
.tl .tcl{fill:var(--on);stroke:var(--clash);font-weight:600}
.tl .back{fill:var(--back);stroke:var(--grid)}.tl .grid{stroke:var(--grid);fill:none}.tl .band{fill:var(--band)}
.tl .mark{fill:var(--ink);stroke:var(--ink);stroke-width:1}
.tl .up{fill:var(--up);stroke:var(--line)}.tl .hi,.tl .fr{stroke:var(--ice)}
.tl .cu,.tl .de{stroke:var(--quiet)}.tl .qu{stroke:var(--amber)}
.tl .wa{fill:var(--quiet)}.tl .ho{fill:var(--hold)}
.tl pattern rect{fill:var(--back)}.tl .pcl rect{fill:var(--clash)}.tl pattern path{fill:none}
.tl .phi path,.tl .pfr path{stroke:var(--ice)}.tl .pcu path,.tl .pde path{stroke:var(--quiet)}
.tl .pqu circle{fill:var(--amber)}
.tl .pcl path{stroke:var(--on);stroke-opacity:.45}
`
