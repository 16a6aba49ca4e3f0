package inside

import "github.com/quorumlock/quorumlock/internal/membership"

// Seen ties a report of package operator, which embeds it, to what the master said of itself.
type Seen struct{ view *membership.View }

// See returns what a report embeds.
func See(v *membership.View) Seen { return Seen{v} }

func (s Seen) seen() *membership.View { return s.view }

// ViewOf returns what a master said of itself, by a report; nil without a reply.
func ViewOf(report interface{ seen() *membership.View }) *membership.View { return report.seen() }
