package world

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

// Kind is a kind of fault.
type Kind struct {
	Name   string
	Says   string // what happens
	Takes  Takes
	Weight float64 // how often it is drawn, compared with others

	// Start begins a fault of the kind. It returns what ends it, if it lasts.
	Start func(w *World, f Fault) (end func())

	Stills    bool // the process' work stands still, too: who plays it must wait for [Process.Pass]
	Replaces  bool // another process takes its place: World.Replace is needed
	Forgets   bool // a master loses data
	Restarts  bool // a master's process ends, and another one comes
	Unnoticed bool // no caller notices
}

// Takes is what a fault is of, and whether it lasts.
type Takes int

const (
	OfProcess Takes = 1 << iota
	OfMaster
	Lasts // until it ends, or is ended
)

// Kinds are all kinds of faults.
var Kinds = []*Kind{
	{Name: "crash", Says: "a master crashes, and comes back empty", Takes: OfMaster | Lasts, Weight: 1.2,
		Start: crash(fakeredis.Nothing), Forgets: true, Restarts: true},
	{Name: "crash-saved", Says: "a master crashes, and comes back with what it saved last", Takes: OfMaster | Lasts, Weight: 0.6,
		Start: crash(fakeredis.LastSave), Forgets: true, Restarts: true},
	{Name: "crash-kept", Says: "a master crashes, and comes back with its data", Takes: OfMaster | Lasts, Weight: 1.2,
		Start: crash(fakeredis.Everything), Restarts: true},
	{Name: "save", Says: "a master saves its data", Takes: OfMaster, Weight: 0.5,
		Start: on((*fakeredis.Master).Save), Unnoticed: true},
	{Name: "flush", Says: "a master's data is deleted", Takes: OfMaster, Weight: 0.5,
		Start: on((*fakeredis.Master).Flush), Forgets: true},
	{Name: "unload", Says: "a master forgets its scripts", Takes: OfMaster, Weight: 0.5,
		Start: on((*fakeredis.Master).FlushScripts), Unnoticed: true},
	{Name: "stall", Says: "a master stands still, and then answers all that it has received", Takes: OfMaster | Lasts, Weight: 1,
		Start: func(w *World, f Fault) func() { return w.shut(window{everyone, f.Master, true, false}) }},
	{Name: "part", Says: "a master is cut off from all processes", Takes: OfMaster | Lasts, Weight: 0.5,
		Start: func(w *World, f Fault) func() { return w.shut(window{everyone, f.Master, true, true}) }},
	{Name: "unplug", Says: "a master's connections end, and it refuses others", Takes: OfMaster | Lasts, Weight: 0.5,
		Start: func(w *World, f Fault) func() { return w.Unplug(f.Master) }},

	{Name: "cut", Says: "a process and a master are cut off", Takes: OfProcess | OfMaster | Lasts, Weight: 0.7, Start: cut(true, true)},
	{Name: "cut-up", Says: "nothing that a process sends reaches a master", Takes: OfProcess | OfMaster | Lasts, Weight: 0.3,
		Start: cut(true, false)},
	{Name: "cut-down", Says: "nothing that a master sends reaches a process", Takes: OfProcess | OfMaster | Lasts, Weight: 0.3,
		Start: cut(false, true)},
	{Name: "reset", Says: "the connections of a process to a master end", Takes: OfProcess | OfMaster, Weight: 1,
		Start: func(w *World, f Fault) func() { w.reset(f.Process, f.Master); return nil }},

	{Name: "isolate", Says: "a process is cut off from all masters", Takes: OfProcess | Lasts, Weight: 2,
		Start: func(w *World, f Fault) func() { return w.shut(window{f.Process, everyone, true, true}) }},
	{Name: "pause", Says: "a process stands still", Takes: OfProcess | Lasts, Weight: 2, Stills: true,
		Start: func(w *World, f Fault) func() { return w.Process(f.Process).Pause() }},
	{Name: "kill", Says: "a process is killed, and another takes its place", Takes: OfProcess, Weight: 1, Replaces: true,
		Start: func(w *World, f Fault) func() { w.Replace(f.Process, true); return nil }},
	{Name: "restart", Says: "a process ends in good order, and another takes its place", Takes: OfProcess, Weight: 1, Replaces: true,
		Start: func(w *World, f Fault) func() { w.Replace(f.Process, false); return nil }},
}

func crash(keeps fakeredis.Memory) func(*World, Fault) func() {
	return func(w *World, f Fault) func() {
		w.Masters[f.Master].Crash(keeps)
		return w.Masters[f.Master].Start
	}
}

func on(do func(*fakeredis.Master)) func(*World, Fault) func() {
	return func(w *World, f Fault) func() { do(w.Masters[f.Master]); return nil }
}

func cut(up, down bool) func(*World, Fault) func() {
	return func(w *World, f Fault) func() { return w.shut(window{f.Process, f.Master, up, down}) }
}

// Fault is one fault. What its kind does not take is 0.
type Fault struct {
	Kind            *Kind
	Process, Master int
	At              time.Duration // since the start of the world, for Play
	Lasts           time.Duration // 0: until it is ended
}
