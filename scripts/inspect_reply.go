package scripts

import "time"

// InspectReply is the reply to Inspect: a node's state of a name.
type InspectReply struct {
	Owner  string        // empty when the name is free, or readers hold it
	Level  int           // may lag behind: the holder's own count decides
	TTL    time.Duration // −1 for a key without one
	Token  uint64        // the counter, which other names share; 0 when there is none
	Marker string        // its text; empty for none
	Now    time.Duration // the node's clock, since 1970
	// Readers is how many readers hold the name. TTL is that of the last of them.
	Readers int
	// Reservation is for how long a writer that waits keeps new readers back; 0 for none.
	Reservation time.Duration
}

// Quarantine returns how long the node grants nothing new by its marker; 0 for none.
func (r InspectReply) Quarantine() time.Duration {
	m, err := ParseMarker(r.Marker)
	if err != nil {
		return 0
	}
	return m.Quarantine(r.Now)
}

// ParseInspect reads the reply to Inspect; errors wrap ErrReply.
func ParseInspect(v any) (InspectReply, error) {
	fields, ok := v.([]any)
	if !ok || len(fields) != 8 {
		return InspectReply{}, malformed(inspectScript, v)
	}
	owner, ok1 := text(fields[0])
	level, ok2 := count(fields[1])
	ttl, ok3 := fields[2].(int64)
	token, ok4 := count(fields[3])
	marker, ok5 := text(fields[4])
	now, ok6 := since1970(fields[5])
	readers, ok7 := fields[6].(int64)
	reservation, ok8 := fields[7].(int64)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7 && ok8) || readers < 0 || readers > 1<<31 {
		return InspectReply{}, malformed(inspectScript, v)
	}
	reply := InspectReply{Owner: owner, Level: int(level), Token: token, Marker: marker, Now: now, Readers: int(readers)}
	if reply.Reservation, ok1 = duration(reservation); !ok1 {
		return InspectReply{}, malformed(inspectScript, v)
	}
	if reply.TTL, ok1 = duration(ttl); ttl == -1 {
		reply.TTL, ok1 = -1, true
	}
	if !ok1 {
		return InspectReply{}, malformed(inspectScript, v)
	}
	return reply, nil
}
