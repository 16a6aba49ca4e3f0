package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"
)

// watchInterval is how often status -watch looks at the masters.
const watchInterval = time.Second

// watch draws what show returns again and again, until ctx ends. Where out is no terminal it writes
// it once. It changes no mode of the terminal, so there is none to restore, whatever ends the
// process: each drawing goes over the one before.
func watch(ctx context.Context, out io.Writer, every time.Duration, show func(context.Context) ([]byte, error)) error {
	for drawn := false; ; drawn = true {
		text, err := show(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		file, ok := out.(*os.File)
		width, height := 0, 0
		if ok {
			width, height = terminalSize(file)
		}
		if width == 0 {
			_, err := out.Write(text)
			return err
		}
		if _, err := out.Write(drawing(text, width, height, !drawn)); err != nil {
			return err
		}
		if !sleep(ctx, every) {
			return nil
		}
	}
}

// drawing returns the text as control sequences and lines that fit a terminal of that size. The
// first one clears the terminal.
func drawing(text []byte, width, height int, first bool) []byte {
	var b bytes.Buffer
	if first {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H") // to the upper left corner
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	for _, line := range lines[:min(len(lines), max(height-1, 1))] {
		if runes := []rune(string(line)); len(runes) > width {
			line = []byte(string(runes[:width]))
		}
		b.Write(line)
		b.WriteString("\x1b[K\r\n") // clears the rest of the line
	}
	b.WriteString("\x1b[J") // and what is below
	return b.Bytes()
}
