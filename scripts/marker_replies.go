package scripts

import (
	"strings"
	"time"
)

// Refusal is the marker of a node that does not accept a client.
type Refusal struct {
	Marker  string  // its text; empty for none
	Process Process // at the connection's other end
}

// refusal reads what follows the word marker: {marker, expected line}.
func (f *Fields) refusal() *Refusal {
	marker, expected := f.Text(), strings.Fields(f.Text())
	if len(expected) != 5 {
		f.bad = true
		return nil
	}
	process, err := parseProcess(expected[1:4])
	process.Member = Canonical(process.Member) // the line spells it as the marker does
	f.bad = f.bad || err != nil
	return &Refusal{marker, process}
}

// LookReply is the reply to Look.
type LookReply struct {
	Marker  string        // its text; empty for none
	Now     time.Duration // the node's clock, since 1970
	Process Process       // at the connection's other end
}

func parseLook(v any) (*LookReply, bool) {
	f := FieldsOf(v)
	r := LookReply{Marker: f.Text(), Now: f.Duration()}
	var err error
	r.Process, err = ParseProcess(f.Text())
	return &r, err == nil && f.End()
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
