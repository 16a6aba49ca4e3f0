package locks

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

type table [][]string

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
	}
	*t = append(*t, texts)
}

// print aligns the cells as a terminal shows them: package tabwriter takes every character for one column.
func (t table) print(out io.Writer) {
	var widths []int
	for _, row := range t {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for _, row := range t {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-columns(cell)+2)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// columns returns how many columns of a terminal a text takes.
func columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // on top of the one before
		return 0
	case r >= 0xff61 && r <= 0xffdc: // half-width forms
		return 1
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}

// fitting returns how many bytes of a text fit into the columns.
func fitting(text string, width int) int {
	for i, r := range text {
		if width -= columnsOf(r); width < 0 {
			return i
		}
	}
	return len(text)
}

// cut shortens a text to the columns. A shortened text ends with ….
func cut(text string, width int) string {
	if fitting(text, width) == len(text) {
		return text
	}
	return text[:fitting(text, width-1)] + "…"
}
