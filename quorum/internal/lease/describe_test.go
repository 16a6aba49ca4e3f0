package lease_test

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

var words = [...]string{lease.Ask: "request", lease.Raise: "write-back", lease.Renew: "renewal", lease.Repair: "repair", lease.Enter: "re-entry",
	lease.Extend: "extension", lease.Release: "release"}

var faultWords = map[change]string{itRefuses: "begins to refuse commands", itPersists: "gets a PERSIST of each lock",
	itIsMixed: "gets a foreign member among its readers", itIsSwapped: "gets another database's data"}

// says has the steps in words. The master is the process of it to which the client is connected.
var says = [...]string{
	begins: "{attempt} asks all masters", asksOn: "{attempt} asks the others", holds: "{attempt} reads the clock", givesUp: "{attempt} gives up", isDue: "{attempt} is due",
	enters: "{attempt} enters again", leaves: "{attempt} leaves a depth", extends: "{attempt} extends its lease", downgrades: "{attempt} is downgraded",
	unlocks: "{attempt} unlocks", isClosed: "{attempt}'s Locker is closed", handsOver: "{attempt} hands over",

	delivers:             "{master} carries out {request}",
	deliversUnread:       "{master} carries out {request}, whose reply is not read yet",
	deliversThenDies:     "{master} carries out {request}, and the connection dies",
	deliversThenTimesOut: "{master} carries out {request}, and does not answer in time",
	reads:                "the reply of {master} to {answered} is read",
	deliversLate:         "{master} carries out {late}, which arrives late",
	reloads:              "{master} does not know the script of {request}, which goes behind what was sent since",
	dies:                 "the connection of {client} to {master} dies",
	timesOut:             "{master} does not answer {client} in time",
	isRefused:            "{client} cannot connect to {master}",
	comesUp:              "{client} connects to {process}",
	submits:              "{master} takes the list of {attempt}",
	failsToSubmit:        "{master} does not take the list of {attempt}",

	restarts: "{master} restarts",
	forgets:  "{master} forgets all",
	notices:  "a client notices that {master} is another process, or forgot",
	bumped:   "a neighbour locks and unlocks on {master}",
	expires:  "the leases end on {master}",
	passes:   "a tick passes",
	reverts:  "{master} restarts with the data that it had at the handing over",
	strikes:  "{master} {fault}",
	relents:  "{master} refuses no command any longer",

	isAcknowledged:     "the replicas of {master} have acknowledged {answered}",
	isNotAcknowledged:  "the replicas of {master} have not acknowledged {answered}",
	applies:            "{process} does what its master did before",
	isPromoted:         "{process} is promoted",
	takesPlace:         "{process} takes its master's place",
	losesAndTakesPlace: "{process} loses all or some of its data and takes its master's place",
	follows:            "{process} becomes the replica of {other}, and gets its data",
	isDemoted:          "{process} becomes the replica of {other}, and gets no data yet",
	loses:              "{process} restarts without all or some of its data",
	expiresAt:          "the leases end on {process}",
	noticesAt:          "{other client} notices that {process} is another process, or forgot",
	moves:              "{client} connects to {process}",
	movesLate:          "{client} connects to {process}",
}

// name is what a process of a master is called.
func (w *world) name(master, process int) string {
	if !w.failsOver(master) {
		return fmt.Sprint(master + 1)
	}
	return fmt.Sprintf("%d%c", master+1, 'p'+process)
}

// describe puts a step into words.
func (w *world) describe(by step, s *state) string {
	attempt, l := fmt.Sprintf("%c%d", 'A'+by.client, by.number+1), &s.links[by.node][by.client]
	if by.does == steps(begins) && by.place > 0 {
		return fmt.Sprintf("%s probes %d", attempt, w.ls.plans[by.place].First+1)
	}
	of := func(id requestID) string { return attempt + "'s " + words[w.ls.requests[id].cmd.Do] }
	name := func(process int) string { return w.name(int(by.node), process) }
	process, other := int(by.place&3), int(by.place>>4)
	return strings.NewReplacer("{attempt}", attempt, "{client}", attempt[:1], "{other client}", string('A'+rune(other)),
		"{master}", name(l.at.process()), "{process}", name(process), "{other}", name(other), "{fault}", faultWords[change(by.place)],
		"{request}", of(l.queue[0]), "{answered}", of(l.unread[0].to), "{late}", of(l.late[process])).Replace(cmp.Or(says[by.does], fmt.Sprint("step ", by.does)))
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
