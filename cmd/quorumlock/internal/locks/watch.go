package locks

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/masters"
)

// watchInterval is how often status -watch looks at the masters.
const watchInterval = time.Second

// notWell begins a line that a terminal shows in red.
const notWell = "!"

// watch draws what show returns again and again, until ctx ends, or q and Enter are typed. If out is no
// terminal it writes it once. It changes no mode of the terminal, so nothing needs to be restored, whatever ends the
// process: each drawing goes over the one before. What is wider than the terminal is cut, or wrapped.
func watch(ctx context.Context, out io.Writer, every time.Duration, wraps bool, show func(context.Context) ([]byte, error)) error {
	quitting, quit := context.WithCancel(ctx)
	defer quit()
	for drawn := false; ; drawn = true {
		text, err := show(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		width, height := cli.TerminalSize(out)
		if width == 0 {
			_, err := out.Write(text)
			return err
		}
		if typed, _ := cli.TerminalSize(os.Stdin); typed > 0 && !drawn {
			go onQuit(os.Stdin, quit)
		}
		if wraps {
			text = wrapped(text, width)
		}
		if _, err := out.Write(drawing(text, width, height, !drawn, os.Getenv("NO_COLOR") == "")); err != nil {
			return err
		}
		if !masters.Sleep(quitting, every) {
			return nil
		}
	}
}

// onQuit calls quit when a line is q. It returns when in ends, or with the process.
func onQuit(in io.Reader, quit func()) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "q" {
			quit()
			return
		}
	}
}

// wrapped breaks lines that are wider, at a space if there is one, and indents what follows.
func wrapped(text []byte, width int) []byte {
	const indent = "    "
	if width <= 2*len(indent) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		rest := []rune(line)
		for len(rest) > width+1 { // the last one is the newline
			end := width
			for end > len(indent) && rest[end] != ' ' {
				end--
			}
			if end <= len(indent) {
				end = width // one long word
			}
			b.WriteString(strings.TrimRight(string(rest[:end]), " ") + "\n")
			rest = []rune(indent + strings.TrimLeft(string(rest[end:]), " "))
		}
		b.WriteString(string(rest))
	}
	return []byte(b.String())
}

// drawing returns the text as control sequences and lines that fit a terminal of that size. The
// first one clears the terminal.
func drawing(text []byte, width, height int, first, isColoured bool) []byte {
	var b bytes.Buffer
	if first {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H") // to the upper left corner
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	if room := max(height-1, 1); len(lines) > room {
		lines = append(lines[:room-1], fmt.Appendf(nil, "... %d more lines", len(lines)-room+1))
	}
	for _, line := range lines {
		if runes := []rune(string(line)); len(runes) > width {
			line = []byte(string(runes[:width]))
		}
		if bytes.HasPrefix(line, []byte(notWell)) && isColoured {
			line = slices.Concat([]byte("\x1b[31m"), line, []byte("\x1b[0m"))
		}
		b.Write(line)
		b.WriteString("\x1b[K\r\n") // clears the rest of the line
	}
	b.WriteString("\x1b[J") // and what is below
	return b.Bytes()
}
