package fleet

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what is written about a run of TestFleet.
type report struct {
	began       time.Time
	processes   int
	namesOfEach int
	takes       time.Duration // a command
	results     []result
	goroutines  int
	virtual     time.Duration
	elapsed     time.Duration
}

// text is docs/reports/fleet.md.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# A simulated fleet

Written by `+"`make fleet`"+`, never by hand. The library's engine runs in virtual time; only the masters'
processors and the network take time.

- %s; quorumlock %s; %s
- %d processes with a locker each, %d goroutines; %v of virtual time took %v

## What is simulated

- Five masters: two in region A, two in B, one in C, so that no region has a majority, and any one may be cut
  off. Two fifths of the processes are in A, two fifths in B, one fifth in C.
- A round trip takes %v within a region, %v between A and B, and %v from C to both. Nothing is lost.
- Each master has one core. A command takes %s of it: by [the figures](../scale.md#figures), what a lock takes of
  five masters, for the two commands at the three that it needs. There, 256 callers of one process share the
  cost of sockets. Masters with one connection for each process may take several times as long, and bend sooner. Redis'
  `+"`maxclients`"+`, 10,000 by default, must allow for them.
- A process has one flow, which pauses, locks, holds for %v and unlocks. Pauses are random (exponential). The
  load is closed: who waits for a lock asks for no other.
- Contended names are wanted by %s processes from all regions, which pause for %v; of each kind there are %d.
  All other names are wanted by one process.
- Times are of the calls of `+"`Lock`"+` that returned during a measurement, in ms. All settings are the defaults.

`, r.began.UTC().Format("2006-01-02"), *revision, runtime.Version(), r.processes, r.goroutines,
		r.virtual.Round(time.Second), r.elapsed.Round(time.Second), inside, near, far, micros(r.takes), holds, "2, 8 and 32",
		contenderPause, r.namesOfEach)
	b.WriteString("## More and more load\n\n" + r.loadTable() + "\n" + r.bend() + "\n")
	b.WriteString(fmt.Sprintf("## A region is cut off\n\nThe mean pause is %v.\n\n", whileCut) +
		r.cutTable() + `
A region that is cut off reaches no majority: its calls wait until it is back. The others go on with three masters,
or four. Without A or B, the majority needs a master of C, and every lock takes its round trip. The first second has
what was asked before, and masters that are not yet known to be down: a process gives one up after its timeout.
Below, contended names suffer for longer: what a process that was cut off held, or an attempt of it that was under
way, stays on the masters of the others until the lease ends.

`)
	b.WriteString("## Contended names\n\n" + r.contendedTable() + "\n" + r.handoff())
	return b.String()
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }

func p50p99(took []time.Duration) string {
	if len(took) == 0 {
		return "–"
	}
	return millis(quantile(took, 0.5)) + " / " + millis(quantile(took, 0.99))
}

// tableHead is the head of a table whose lines are [result.line].
func tableHead(first string) string {
	head := "| " + first + " | locks/s | "
	for at := range regions {
		head += at.String()
		if at == 0 {
			head += ": p50 / p99"
		}
		head += " | "
	}
	head += "commands/s of the masters in A, A, B, B, C | busiest core |\n"
	return head + strings.Repeat("|---", strings.Count(head, "|")-1) + "|\n"
}

func (x *result) line(name string) string {
	text := fmt.Sprintf("| %s | %.0f | ", name, x.perSecond(len(x.all())))
	for at := range regions {
		text += p50p99(x.alone(at)) + " | "
	}
	var commands []string
	for _, m := range x.masters {
		commands = append(commands, fmt.Sprintf("%.0f", x.perSecond(m.commands)))
	}
	return text + fmt.Sprintf("%s | %.0f %% |\n", strings.Join(commands, ", "), 100*x.busiest())
}

func (r *report) loadTable() string { return tableHead("mean pause") + r.lines(true) }
func (r *report) cutTable() string  { return tableHead("") + r.lines(false) }

func (r *report) lines(loads bool) (text string) {
	for _, x := range r.results {
		if x.isLoad == loads {
			text += x.line(strings.TrimPrefix(x.name, "mean pause "))
		}
	}
	return text
}

// bend says where more load brings no more locks, and why.
func (r *report) bend() string {
	first, last := &r.results[0], &r.results[len(loads)-1]
	text := fmt.Sprintf("**Below the bend the network decides.** A lock in A or B takes %s ms: a majority needs a "+
		"master of the other region. In C it takes %s ms. Masters nearby save nothing.\n\n",
		millis(quantile(first.alone(regionA), 0.5)), millis(quantile(first.alone(regionC), 0.5)))
	if last.busiest() < 0.95 {
		return text + fmt.Sprintf("It does not bend: %d processes keep no master's core busy.\n", r.processes)
	}
	return text + fmt.Sprintf("**It bends at %.0f locks/s, at the masters' cores.** A process with one caller asks "+
		"all five masters, so each lock is about two commands at every master: %s × 2 allow about %.0f locks/s, and "+
		"more masters allow no more. Beyond that, calls wait for the masters: with a mean pause of %v the p50 in A is %s ms.\n",
		last.perSecond(len(last.all())), micros(r.takes), float64(time.Second)/float64(2*r.takes), last.pause,
		millis(quantile(last.alone(regionA), 0.5)))
}

func (r *report) contendedTable() string {
	text := "| | contenders | locks/s of each name | p50 / p99 | attempts for each lock |\n|---|---|---|---|---|\n"
	for _, x := range r.results {
		if x.length < time.Second { // too few locks
			continue
		}
		for _, contenders := range contenderCounts {
			took := x.contended(contenders)
			each := "–"
			if len(took) > 0 {
				each = fmt.Sprintf("%.1f", float64(x.attemptsOf(contenders))/float64(len(took)))
			}
			text += fmt.Sprintf("| %s | %d | %.1f | %s | %s |\n", x.name, contenders,
				x.perSecond(len(took))/float64(r.namesOfEach), p50p99(took), each)
		}
	}
	return text
}

// handoff says how fast a contended name changes hands, and why.
func (r *report) handoff() string {
	first, contenders := &r.results[0], contenderCounts[1]
	locks := first.perSecond(len(first.contended(contenders))) / float64(r.namesOfEach)
	if locks == 0 {
		return ""
	}
	turn := time.Duration(float64(time.Second) / locks)
	return fmt.Sprintf("**A contended name bends first, at the handoff.** With %d contenders it changes hands every "+
		"%s ms, of which it is held for %v. The rest is the network: the release reaches a majority, its message the next "+
		"process, whose attempt reaches a majority. More masters do not help. A waiter attempts a step after the one "+
		"before it, and a step is 20 ms at most: less than the round trip between these regions. So attempts meet, and "+
		"some split the vote.\n", contenders, millis(turn), holds)
}

// class is what is measured together: the calls of Lock of one region, or at names with the same number
// of contenders.
type class struct {
	at         region
	contenders int // 1: nobody else wants the name
}

// samples has how long each call of Lock took, while it is on.
type samples struct {
	mu   sync.Mutex
	on   bool
	took map[class][]time.Duration
}

func (s *samples) add(of class, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.took[of] = append(s.took[of], took)
	}
}

// start begins a measurement, without what was before.
func (s *samples) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.took = true, map[class][]time.Duration{}
}

// stop ends the measurement, and returns it.
func (s *samples) stop() map[class][]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	return s.took
}

// quantile returns a quantile of a sample: 0.5 is the median. It is 0 for no sample.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}
