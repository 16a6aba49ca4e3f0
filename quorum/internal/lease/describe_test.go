package lease_test

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

var words = [...]string{lease.Ask: "request", lease.Raise: "write-back", lease.Renew: "renewal", lease.Repair: "repair", lease.Enter: "re-entry",
	lease.Extend: "extension", lease.Release: "release"}

var faultWords = map[change]string{itRefuses: "begins to refuse commands", itPersists: "gets a PERSIST of each lock",
	itIsMixed: "gets a foreign member among its readers", itIsSwapped: "gets another database's data"}

// attemptDoes has the steps of an attempt that need no more words, and masterDoes the steps of a master.
var attemptDoes = [...]string{asksOn: "asks the others", holds: "reads the clock", givesUp: "gives up", isDue: "is due",
	enters: "enters again", leaves: "leaves a depth", extends: "extends its lease", downgrades: "is downgraded", unlocks: "unlocks",
	handsOver: "hands over"}

var masterDoes = map[steps]string{restarts: "%s restarts", reverts: "%s restarts with the data that it had at the handing over",
	forgets: "%s forgets all", notices: "a client notices that %s is another process, or forgot",
	bumped: "a neighbour locks and unlocks on %s", relents: "%s refuses no command any longer", expires: "the leases end on %s"}

// processDoes has what happens to a process of a master that fails over, and perhaps another.
var processDoes = map[steps]string{applies: "%s does what its master did before%.0s",
	isPromoted: "%s is promoted%.0s", takesPlace: "%s takes its master's place%.0s",
	losesAndTakesPlace: "%s loses all or some of its data and takes its master's place%.0s", follows: "%s becomes the replica of %s, and gets its data", isDemoted: "%s becomes the replica of %s, and gets no data yet",
	loses: "%s restarts without all or some of its data%.0s", expiresAt: "the leases end on %s%.0s"}

// name is what a process of a master is called.
func (w *world) name(master, process int) string {
	if !w.failsOver(master) {
		return fmt.Sprint(master + 1)
	}
	return fmt.Sprintf("%d%c", master+1, 'p'+process)
}

// describe puts a step into words.
func (w *world) describe(by step, s *state) string {
	who, l := fmt.Sprintf("%c%d", 'A'+by.client, by.number+1), &s.links[by.node][by.client]
	at := w.name(int(by.node), l.at.process())
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
		return fmt.Sprintf("%s carries out %s", at, word(l.queue[0]))
	case deliversUnread:
		return fmt.Sprintf("%s carries out %s, whose reply is not read yet", at, word(l.queue[0]))
	case deliversThenDies:
		return fmt.Sprintf("%s carries out %s, and the connection dies", at, word(l.queue[0]))
	case deliversThenTimesOut:
		return fmt.Sprintf("%s carries out %s, and does not answer in time", at, word(l.queue[0]))
	case reads:
		return fmt.Sprintf("the reply of %s to %s is read", at, word(l.unread[0].to))
	case deliversLate:
		return fmt.Sprintf("%s carries out %s, which arrives late", at, word(l.late[by.place]))
	case reloads:
		return fmt.Sprintf("%s does not know the script of %s, which goes behind what was sent since", at, word(l.queue[0]))
	case dies:
		return fmt.Sprintf("the connection of %c to %s dies", who[0], at)
	case timesOut:
		return fmt.Sprintf("%s does not answer %c in time", at, who[0])
	case isRefused:
		return fmt.Sprintf("%c cannot connect to %s", who[0], at)
	case submits:
		return fmt.Sprintf("%s takes the list of %s", at, who)
	case failsToSubmit:
		return fmt.Sprintf("%s does not take the list of %s", at, who)
	case isAcknowledged, isNotAcknowledged:
		not := map[steps]string{isNotAcknowledged: "not "}[by.does]
		return fmt.Sprintf("the replicas of %s have %sacknowledged %s", w.name(int(by.node), l.at.process()), not, word(l.unread[0].to))
	case moves, movesLate, comesUp:
		return fmt.Sprintf("%c connects to %s", who[0], w.name(int(by.node), int(by.place)))
	case noticesAt:
		return fmt.Sprintf("%c notices that %s is another process, or forgot", 'A'+by.place>>4, w.name(int(by.node), int(by.place&3)))
	case strikes:
		return fmt.Sprintf("%s %s", at, faultWords[change(by.place)])
	}
	if does, known := processDoes[by.does]; known {
		number, other := int(by.place&3), int(by.place>>4)
		return fmt.Sprintf(does, w.name(int(by.node), number), w.name(int(by.node), other))
	}
	return "a tick passes"
}

var phases = [...]string{lease.Asking: "asks", lease.Settling: "settles", lease.Held: "holds", lease.Lingering: "lingers", lease.Undone: "undone",
	lease.Released: "released", lease.Expired: "lost", lease.Orphaned: "orphaned"}

// display is a state on one line.
func (w *world) display(s *state) string {
	var b strings.Builder
	show := func(name string, id masterID, isUnaware bool) {
		st := &w.ms.states[id]
		fmt.Fprintf(&b, "%s:", name)
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
		if isUnaware {
			b.WriteString("?")
		} else if st.left > 0 {
			fmt.Fprintf(&b, "-%.0f", st.left.Seconds())
		}
		b.WriteString("  ")
	}
	for i := range w.masters() {
		if !w.failsOver(i) {
			id := s.masters[w.processOf(i)]
			show(w.name(i, 0), id, w.ms.states[id].unaware)
			continue
		}
		for number := range w.copies() {
			p, name := w.process(s, i, number), w.name(i, number)
			switch {
			case p.of == 0:
				name = strings.ToUpper(name)
			case !p.linked:
				name += "~"
			}
			show(name, p.data, p.of == 0 && w.ms.states[p.data].run != w.ms.runOf(p.place(number)))
		}
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
