package scripts

import "time"

// Refusal is the marker of a node that does not accept a client.
type Refusal struct {
	Marker  string  // its text; empty for none
	Process Process // at the connection's other end
}

// parseRefusal reads {'marker', marker, expected line}; nil for anything else.
func parseRefusal(fields []any) *Refusal {
	if len(fields) != 3 {
		return nil
	}
	word, _ := text(fields[0])
	marker, ok := text(fields[1])
	expected, ok1 := text(fields[2])
	if word != "marker" || !ok || !ok1 {
		return nil
	}
	process, err := parseExpected(expected)
	if err != nil {
		return nil
	}
	return &Refusal{marker, process}
}

// LookReply is the reply to Look.
type LookReply struct {
	Marker  string        // its text; empty for none
	Now     time.Duration // the node's clock, since 1970
	Process Process       // at the connection's other end
}

// ParseLook reads the reply to Look; errors wrap ErrReply.
func ParseLook(v any) (LookReply, error) {
	fields, ok := v.([]any)
	if !ok || len(fields) != 3 {
		return LookReply{}, malformed(lookScript, v)
	}
	marker, ok1 := text(fields[0])
	now, ok2 := since1970(fields[1])
	process, ok3 := text(fields[2])
	if !(ok1 && ok2 && ok3) {
		return LookReply{}, malformed(lookScript, v)
	}
	reply := LookReply{Marker: marker, Now: now}
	var err error
	if reply.Process, err = ParseProcess(process); err != nil {
		return LookReply{}, malformed(lookScript, v)
	}
	return reply, nil
}

// MarkReply is the reply to Mark.
type MarkReply struct {
	Written bool
	Marker  string        // that is there now; empty for none
	Now     time.Duration // the node's clock, since 1970
}

// ParseMark reads the reply to Mark; errors wrap ErrReply.
func ParseMark(v any) (MarkReply, error) {
	fields, ok := v.([]any)
	if !ok || len(fields) != 3 {
		return MarkReply{}, malformed(markScript, v)
	}
	written, ok1 := fields[0].(int64)
	marker, ok2 := text(fields[1])
	now, ok3 := since1970(fields[2])
	if !(ok1 && ok2 && ok3) || written < 0 || written > 1 {
		return MarkReply{}, malformed(markScript, v)
	}
	return MarkReply{written == 1, marker, now}, nil
}
