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

// widest is how many columns a line takes at most without a terminal.
const widest = 200

// indent begins the rest of a broken line.
const indent = "    "

// notWell begins a line that a terminal shows in red.
const notWell = "!"

// watch draws what show returns again and again, until ctx ends, or q and Enter are typed. If out is no terminal it
// writes it once, and show may wait for slow masters. It changes no mode of the terminal, so nothing needs to be restored
// however the process ends: each drawing overwrites the one before. Lines wider than the terminal are cut, or wrapped.
func watch(ctx context.Context, out io.Writer, every time.Duration, wraps bool, show func(ctx context.Context, isLive bool) ([]byte, error)) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	if width, _ := cli.TerminalSize(out); width == 0 {
		text, err := show(ctx, false)
		if ctx.Err() == nil {
			out.Write(text)
		}
		return err
	}
	if typed, _ := cli.TerminalSize(os.Stdin); typed > 0 {
		go onQuit(os.Stdin, quit)
	}
	for isFirst := true; ; isFirst = false {
		text, err := show(ctx, true)
		if err != nil || ctx.Err() != nil {
			return err
		}
		width, height := cli.TerminalSize(out)
		if wraps {
			text = wrapped(text, width)
		}
		if _, err := out.Write(drawing(text, width, height, isFirst, os.Getenv("NO_COLOR") == "")); err != nil {
			return err
		}
		if !masters.Sleep(ctx, every) {
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

// wrapped breaks wider lines, at a space if there is one, and indents the rest.
func wrapped(text []byte, width int) []byte {
	if width <= 2*len(indent) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		rest := strings.TrimSuffix(line, "\n")
		for end := fitting(rest, width); end < len(rest); end = fitting(rest, width) {
			if rest[end] != ' ' {
				if space := strings.LastIndexByte(rest[:end], ' '); space > len(indent) {
					end = space // else it is one long word
				}
			}
			b.WriteString(strings.TrimRight(rest[:end], " ") + "\n")
			rest = indent + strings.TrimLeft(rest[end:], " ")
		}
		b.WriteString(rest + "\n")
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
		line = []byte(cut(string(line), width))
		if bytes.HasPrefix(line, []byte(notWell)) && isColoured {
			line = slices.Concat([]byte("\x1b[31m"), line, []byte("\x1b[0m"))
		}
		b.Write(line)
		b.WriteString("\x1b[K\r\n") // clears the rest of the line
	}
	b.WriteString("\x1b[J") // and what is below
	return b.Bytes()
}
