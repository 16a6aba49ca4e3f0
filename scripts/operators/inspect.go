package operators

import (
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// Inspect reads a node's state of a name.
func Inspect(name scripts.Name) scripts.Call {
	return inspectScript.Call(4, scripts.MarkerKey, name.String(), name.Counter(), name.Writer())
}

// InspectReply is the reply to Inspect: a node's state of a name.
type InspectReply struct {
	Owner  string        // empty when the name is free, or readers hold it
	Depth  int           // may lag behind: the holder's own count decides
	TTL    time.Duration // −1 for a key without one
	Token  uint64        // the counter, which other names share; 0 without one
	Marker string        // its text; empty for none
	Now    time.Duration // the node's clock, since 1970
	// Readers is how many readers hold the name. TTL is the last one's.
	Readers int
	// Reservation is how long a waiting writer keeps new readers back; 0 for none.
	Reservation time.Duration
}

// Quarantine returns how long the node grants nothing new, according to its marker; 0 for none.
func (r InspectReply) Quarantine() time.Duration {
	m, _ := scripts.ParseMarker(r.Marker) // an unreadable marker has no quarantine
	return m.Quarantine(r.Now)
}

func parseInspect(v any, _ int) (any, bool) {
	f := scripts.FieldsOf(v)
	r := InspectReply{Owner: f.Text(), Depth: int(f.Count()), TTL: f.TTL(), Token: f.Count(), Marker: f.Text(),
		Now: f.Duration(), Readers: f.Number(0, 1<<31), Reservation: f.Duration()}
	return &r, f.End()
}
