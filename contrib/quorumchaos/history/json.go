package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) {
	if _, ok := kindWords[k]; !ok {
		return nil, fmt.Errorf("history: %v is no kind of event", k)
	}
	return []byte(k.String()), nil
}

// UnmarshalText reads the kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind, word := range kindWords {
		if word == string(text) {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("history: %q is no kind of event", text)
}

// line is an event in the file. Names are any bytes, JSON strings are not.
type line struct {
	Event
	NameBytes []byte `json:",omitempty"` // replaces a Name that is not UTF-8
}

// WriteJSON writes one event per line, each with one Write. A process that is killed leaves whole
// lines and at most one that is cut off. Several processes may append to one file.
func WriteJSON(w io.Writer, events ...Event) error {
	for _, e := range events {
		l := line{Event: e}
		if !utf8.ValidString(e.Name) {
			l.Name, l.NameBytes = "", []byte(e.Name)
		}
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// ReadJSON reads the output of [WriteJSON] to the end. It leaves out a last line without an end:
// the writer was killed. With an error, it returns the events before it.
func ReadJSON(r io.Reader) ([]Event, error) {
	var events []Event
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, fmt.Errorf("history: %w", err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return events, fmt.Errorf("history: line %d: %w", len(events)+1, err)
		}
		if l.NameBytes != nil {
			l.Name = string(l.NameBytes)
		}
		events = append(events, l.Event)
	}
}
