package lease

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

var words = [...]string{lease.Ask: "request", lease.Raise: "write-back", lease.Renew: "renewal", lease.Repair: "repair", lease.Enter: "re-entry",
	lease.Extend: "extension", lease.Release: "release"}

var faultWords = map[change]string{itRefuses: "begins to refuse commands", itPersists: "gets a PERSIST of each lock",
	itIsMixed: "gets a foreign member among its readers", itIsSwapped: "gets another database's data"}

// attemptDoes has the steps of an attempt, and masterDoes those of a master, that need no more words.
var attemptDoes = [...]string{asksOn: "asks the others", holds: "reads the clock", givesUp: "gives up", isDue: "is due",
	enters: "enters again", leaves: "leaves a level", extends: "extends its lease", downgrades: "is downgraded", unlocks: "unlocks",
	handsOver: "hands over"}

var masterDoes = map[steps]string{restarts: "%d restarts", reverts: "%d restarts with the data that it had at the handing over",
	forgets: "%d forgets all", notices: "a client notices that %d is another process, or forgot",
	bumped: "a neighbour locks and unlocks on %d", relents: "%d refuses no command any longer", expires: "the leases end on %d"}

// describe puts a step into words.
func (w *world) describe(by step, s *state) string {
	who, at := fmt.Sprintf("%c%d", 'A'+by.client, by.number+1), by.node+1
	l := &s.links[by.node][by.client]
	word := func(id requestID) string { return who + "'s " + words[w.ls.requests[id].cmd.Do] }
	if int(by.does) < len(attemptDoes) && attemptDoes[by.does] != "" {
		return who + " " + attemptDoes[by.does]
	}
	if does, known := masterDoes[by.does]; known {
		return fmt.Sprintf(does, at)
	}
	switch by.does {
	case steps(begins):
		if plan := w.ls.plans[by.place]; plan.Probe {
			return fmt.Sprintf("%s probes %d", who, plan.First+1)
		}
		return who + " asks all masters"
	case steps(isClosed):
		return who + "'s Locker is closed"
	case delivers:
		return fmt.Sprintf("%d carries out %s", at, word(l.queue[0]))
	case deliversUnread:
		return fmt.Sprintf("%d carries out %s, whose reply is not read yet", at, word(l.queue[0]))
	case deliversThenDies:
		return fmt.Sprintf("%d carries out %s, and the connection dies", at, word(l.queue[0]))
	case deliversThenTimesOut:
		return fmt.Sprintf("%d carries out %s, and does not answer in time", at, word(l.queue[0]))
	case reads:
		return fmt.Sprintf("the reply of %d to %s is read", at, word(l.unread[0].to))
	case deliversLate:
		return fmt.Sprintf("%d carries out %s, which arrives late", at, word(l.late[by.place]))
	case reloads:
		return fmt.Sprintf("%d does not know the script of %s, which goes behind what was sent since", at, word(l.queue[0]))
	case dies:
		return fmt.Sprintf("the connection of %c to %d dies", who[0], at)
	case timesOut:
		return fmt.Sprintf("%d does not answer %c in time", at, who[0])
	case isRefused:
		return fmt.Sprintf("%c cannot connect to %d", who[0], at)
	case comesUp:
		return fmt.Sprintf("%c has a connection to %d again", who[0], at)
	case submits:
		return fmt.Sprintf("%d takes the list of %s", at, who)
	case failsToSubmit:
		return fmt.Sprintf("%d does not take the list of %s", at, who)
	case strikes:
		return fmt.Sprintf("%d %s", at, faultWords[change(by.place)])
	}
	return "a tick passes"
}

var phases = [...]string{lease.Asking: "asks", lease.Settling: "settles", lease.Held: "holds", lease.Lingering: "lingers", lease.Undone: "undone",
	lease.Released: "released", lease.Expired: "lost", lease.Orphaned: "orphaned"}

// display is a state on one line.
func (w *world) display(s *state) string {
	var b strings.Builder
	for i := range s.masters {
		st := &w.ms.states[s.masters[w.processOf(i)]]
		fmt.Fprintf(&b, "%d:", i+1)
		for o := range owners {
			if st.owners>>o&1 == 1 {
				fmt.Fprintf(&b, "%c%d", 'A'+o/maxAttempts, o%maxAttempts+1)
				if w.clock == honest {
					fmt.Fprintf(&b, "(%.0f)", st.data.TTL(w.ms.names[o/maxAttempts][0].String()).Seconds())
				}
			}
		}
		if w.tokens {
			fmt.Fprintf(&b, " c%d", w.ms.counters(st.data)[w.places[0][0]])
		}
		if st.unaware {
			b.WriteString("?")
		}
		b.WriteString("  ")
	}
	for o, id := range s.leases {
		if st := &w.ls.states[id]; st.begun {
			fmt.Fprintf(&b, "| %c%d %s", 'A'+o/maxAttempts, o%maxAttempts+1, phases[st.phase])
			switch {
			case st.valid || st.keeps:
				fmt.Fprintf(&b, " for %.0f", st.is.Deadline().Sub(now).Seconds())
			case st.phase == lease.Held:
				b.WriteString(" no more")
			}
			if w.tokens && st.token > 0 {
				fmt.Fprintf(&b, " t%d", st.token)
			}
		}
	}
	return b.String()
}
