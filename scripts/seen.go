package scripts

import (
	"strings"
	"time"
)

// Seen is what a node has shown of itself.
type Seen struct {
	Process Process       // at the connection's other end
	Marker  string        // its text; empty for none
	Now     time.Duration // the node's clock, since 1970; 0 if the node did not accept the client
}

// refusal reads what follows the word marker: {marker, expected line}.
func (f *Fields) refusal() *Seen {
	marker, expected := f.Text(), strings.Fields(f.Text())
	if len(expected) != 5 {
		f.bad = true
		return nil
	}
	process, err := parseProcess(expected[1:4])
	process.Member = Canonical(process.Member) // the line spells it as the marker does
	f.bad = f.bad || err != nil
	return &Seen{Process: process, Marker: marker}
}

func parseLook(v any) (*Seen, bool) {
	f := FieldsOf(v)
	seen := Seen{Marker: f.Text(), Now: f.Duration()}
	var err error
	seen.Process, err = ParseProcess(f.Text())
	return &seen, err == nil && f.End()
}

// MarkReply is the reply to Mark.
type MarkReply struct {
	Written bool
	Marker  string        // that is there now; empty for none
	Now     time.Duration // the node's clock, since 1970
}

func parseMark(v any) (*MarkReply, bool) {
	f := FieldsOf(v)
	r := MarkReply{f.Number(0, 1) == 1, f.Text(), f.Duration()}
	return &r, f.End()
}
