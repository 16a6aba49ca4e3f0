package world

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// KindOf returns the kind of that name, nil for none.
func KindOf(name string) *Kind {
	if at := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Name == name }); at >= 0 {
		return Kinds[at]
	}
	return nil
}

// String is the line that [World.Fault] reads.
func (f Fault) String() string {
	words := []string{f.Kind.Name}
	if f.Kind.Takes&OfProcess != 0 {
		words = append(words, fmt.Sprint(f.Process))
	}
	if f.Kind.Takes&OfMaster != 0 {
		words = append(words, fmt.Sprint(f.Master))
	}
	if f.Lasts > 0 {
		words = append(words, f.Lasts.String())
	}
	return strings.Join(words, " ")
}

// Fault reads a line: the kind's name, then the process, by name or number, and the master, by number, if the kind takes them, and
// perhaps how long it lasts. A line that is no fault is an error.
func (w *World) Fault(line string) (f Fault, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return f, fmt.Errorf("world: no fault is named")
	}
	f.Kind, words = KindOf(words[0]), words[1:]
	if f.Kind == nil {
		return f, fmt.Errorf("world: %q: no such fault", line)
	}
	number := func(what string, takes Takes, names int, nameOf func(int) string) (n int) {
		if f.Kind.Takes&takes == 0 || err != nil {
			return 0
		}
		if len(words) == 0 {
			err = fmt.Errorf("world: %q: which %s?", line, what)
			return 0
		}
		for n = range names {
			if words[0] == nameOf(n) || words[0] == strconv.Itoa(n) {
				words = words[1:]
				return n
			}
		}
		err = fmt.Errorf("world: %q: there is no %s %q", line, what, words[0])
		return 0
	}
	f.Process = number("process", OfProcess, w.Size(), func(n int) string { return w.Process(n).name })
	f.Master = number("master", OfMaster, len(w.Masters), NodeName)
	switch {
	case err != nil:
	case len(words) == 1 && f.Kind.Takes&Lasts != 0:
		f.Lasts, err = time.ParseDuration(words[0])
	case len(words) > 0:
		err = fmt.Errorf("world: %q: %s takes no %q", line, f.Kind.Name, words[0])
	}
	return f, err
}

// Inject begins a fault. It ends when its time is over, by end, or by Heal.
func (w *World) Inject(f Fault) (end func()) {
	if f.Kind.Replaces && w.Replace == nil {
		w.tb.Errorf("world: %s: nothing can take a process' place", f)
		return func() {}
	}
	end = w.begin(f)
	if f.Lasts > 0 {
		time.AfterFunc(time.Until(FaultSlot.From(time.Now().Add(f.Lasts))), end)
	}
	return end
}

func (w *World) begin(f Fault) (end func()) {
	stop := f.Kind.Start(w, f)
	if stop == nil {
		return func() {}
	}
	end = sync.OnceFunc(stop)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, end)
	return end
}

// Heal ends all faults, and makes the weather calm: nothing is slow or lost from now on.
func (w *World) Heal() {
	w.calm.Store(true)
	w.mu.Lock()
	all := w.faults
	w.faults = nil
	w.mu.Unlock()
	for _, end := range all {
		end()
	}
}

// Play plays a plan, and then ends all faults. It calls begins before a fault begins.
func (w *World) Play(plan []Fault, until time.Duration, begins func(Fault)) {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, f := range plan {
		end := func() {}
		events = append(events, event{f.At, func() { begins(f); end = w.begin(f) }})
		if f.Kind.Takes&Lasts != 0 {
			events = append(events, event{f.At + f.Lasts, func() { end() }})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	sleep := func(at time.Duration) { time.Sleep(time.Until(FaultSlot.From(w.start.Add(at)))) }
	for _, e := range events {
		if e.at < until {
			sleep(e.at)
			e.do()
		}
	}
	sleep(until)
	w.Heal()
}

// Dice draw faults.
type Dice struct {
	Masters, Processes int
	Lasts              func(*rand.Rand) time.Duration
	Allow              func(*Kind) bool
}

// Roll draws a fault: of each kind as often as its weight says. One in six that hits a master hits all of them, and ends at each
// by itself. It draws none if no kind is allowed.
func (d Dice) Roll(r *rand.Rand) (faults []Fault) {
	var kinds []*Kind
	sum := 0.0
	for _, k := range Kinds {
		if d.Allow(k) {
			kinds, sum = append(kinds, k), sum+k.Weight
		}
	}
	var kind *Kind
	at := r.Float64() * sum
	for _, kind = range kinds {
		if at < kind.Weight {
			break
		}
		at -= kind.Weight
	}
	if kind == nil {
		return nil
	}
	f, all := Fault{Kind: kind, Process: r.IntN(max(d.Processes, 1)), Master: r.IntN(d.Masters)}, r.IntN(6) == 0
	if kind.Takes&OfProcess == 0 {
		f.Process = 0
	}
	for m := range d.Masters {
		if kind.Takes&Lasts != 0 {
			f.Lasts = max(d.Lasts(r), 1)
		}
		if all && kind.Takes&(OfMaster|OfProcess) == OfMaster {
			f.Master = m
		} else if m > 0 {
			break
		}
		faults = append(faults, f)
	}
	return faults
}
