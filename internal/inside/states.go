package inside

// The states of a node, as calls and probes have found it.
const (
	Unknown     = "unknown"
	Up          = "up"
	Quarantined = "quarantined"
	Down        = "down"
	Refused     = "refused"
	NotAccepted = "not_accepted"
)

// States returns all states.
func States() []string { return []string{Unknown, Up, Quarantined, Down, Refused, NotAccepted} }
