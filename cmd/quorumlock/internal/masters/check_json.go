package masters

import (
	"io"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
)

// checkJSON is what check -json prints. Times are in milliseconds.
type checkJSON struct {
	Fit      int           `json:"fit"`
	Granting int           `json:"granting"`    // fit, not in quarantine, and with the URLs' list
	ReadyIn  int64         `json:"ready_in_ms"` // until a majority grants: 0 for now, −1 for never by itself
	Masters  []findingJSON `json:"masters"`
}

type findingJSON struct {
	Name        string   `json:"name"`
	State       string   `json:"state"` // ok, quarantine, BLANK, HALF-MARKED, REFUSED or FAILED
	Error       string   `json:"error,omitempty"`
	Tried       bool     `json:"tried"` // a lock was acquired, renewed and released there, and the release was announced
	Role        string   `json:"role,omitempty"`
	Version     string   `json:"version,omitempty"`
	Uptime      int64    `json:"uptime_ms"`
	RoundTrip   float64  `json:"round_trip_ms"`
	ClockAhead  int64    `json:"clock_ahead_ms"` // of this machine's clock, at least
	Persistence string   `json:"persistence,omitempty"`
	MaxMemory   uint64   `json:"maxmemory_bytes"` // 0 for no bound
	MaxLease    int64    `json:"max_lease_ms"`    // 0 while no client has marked it
	Replicas    int      `json:"replicas"`        // that acknowledge each lock
	Quarantine  int64    `json:"quarantine_ms"`
	Members     []string `json:"members,omitempty"`
	Next        []string `json:"next,omitempty"`
	Generation  uint64   `json:"generation"`
	Notes       []string `json:"notes,omitempty"`
}

func printCheckJSON(out io.Writer, found []Finding) error {
	all := checkJSON{Fit: thoseThat(found, Finding.isFit).Len(), Granting: thoseThat(found, Finding.IsOK).Len(), ReadyIn: -1}
	if in, ok := readyIn(found, Quorum(len(found), false), isNone); ok {
		all.ReadyIn = in.Milliseconds()
	}
	for _, f := range found {
		r := f.Report
		one := findingJSON{f.Name, f.State(), "", f.tried && f.unheard == nil, r.Role, r.Version, r.Uptime.Milliseconds(),
			r.RoundTrip.Seconds() * 1000, r.ClockAhead.Milliseconds(), r.Persistence, r.MaxMemory, r.MaxLease.Milliseconds(),
			r.Replicas, r.Quarantine.Milliseconds(), r.Members, r.Next, r.Generation, f.notes()}
		if f.ready.Err != nil {
			one.Error = Reason(f.ready.Err)
		}
		all.Masters = append(all.Masters, one)
	}
	return cli.PrintJSON(out, all)
}
