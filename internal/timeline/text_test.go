package timeline

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func text(t *testing.T, p *Picture, width int, colour bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out, width, colour); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTextOfAPicture(t *testing.T) {
	const want = `a title
a verdict
masters
                    ▾kill   ▾restart
m1  ━ up ━━━━━━━━━━━x dead x━ up ━━━━━━━━━━━
        / from A ///////------------
m2  ~~~~~~~~~~~~~~~~~~~~********************
clients
A   ········█ #1 ███████████████
B   ························█ #2 ███████████
    0s      0.2s    0.4s    0.6s    0.8s
━ up   - hindered   / cut off
~ in quarantine, grants nothing   * frozen
x dead   · waits   █ holds the lock
▒ for a part of the time
a note
`
	if got := text(t, outage(), 44, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextIsPlainWithoutColour(t *testing.T) {
	p := withClash(ms(600), ms(700))
	plain, coloured := text(t, p, 80, false), text(t, p, 80, true)
	if strings.Contains(plain, "\x1b") || !strings.Contains(coloured, "\x1b[1;31m!") {
		t.Errorf("plain:\n%s\ncoloured:\n%q", plain, coloured)
	}
	for _, l := range looks {
		coloured = strings.ReplaceAll(coloured, "\x1b["+l.ansi+"m", "")
	}
	if coloured = strings.ReplaceAll(coloured, "\x1b[0m", ""); coloured != plain {
		t.Errorf("colours change more than colours:\n%s\n%s", plain, coloured)
	}
}

func TestTextIsNoWiderThanAsked(t *testing.T) {
	p := withClash(ms(600), ms(700))
	p.Title, p.Rows[0].Label = strings.Repeat("long ", 60), strings.Repeat("long ", 20)
	for width := -5; width < 250; width += 7 {
		for line := range strings.Lines(text(t, p, width, false)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > max(width, leastWidth) {
				t.Errorf("width %d: %d letters: %q", width, n, line)
			}
		}
	}
}

func TestAClashIsSeenInText(t *testing.T) {
	if got := text(t, outage(), 80, false); strings.Contains(got, "!") {
		t.Errorf("a clash is shown, and there is none:\n%s", got)
	}
	for _, at := range []int{0, 333, 1000} {
		p := withClash(ms(at), ms(at)+0)
		if got := text(t, p, 80, false); strings.Count(got, "!") != 3 { // two rows, and the legend
			t.Errorf("a clash of no length at %v:\n%s", ms(at), got)
		}
	}
}
