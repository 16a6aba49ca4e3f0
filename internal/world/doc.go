// Package world is a deployment in memory, for tests: masters (internal/fakeredis), processes with clocks and connections of
// their own, and what can go wrong between them. It takes no time but what a test lets pass in its testing/synctest bubble.
//
//	w := world.New(t, 3)
//	a, b := w.NewProcess(), w.NewProcess()
//	nodes := a.Nodes(node.WithoutQuarantine())
//	cut, err := w.Fault("cut 0 2 10s") // process 0 and master 2, both counted from 0
//	w.Inject(cut)
//
// A world is quiet unless its [Config] has a [Weather]: what is sent arrives at once, in order, and no instant passes. Writes do
// not wait for the reader. With a Weather, data takes its time, and is lost with its connection. Then a seed fixes what becomes
// of all that is sent at a given instant, and events without a common cause get instants of their own: see [Slot].
//
// # Faults
//
// All that can go wrong is an entry of [Kinds]: its name, what it takes, how often it is drawn, and what it does. integration/sim
// draws its plans from there, quorumtest.Explore its faults, and a scene names them (World.Fault). So to add a fault, add an
// entry, and a line to the test that says what each does. What no fault is, but tests need, are hooks: [World.Before], [World.Ran],
// [World.HangUp], [Process.Far], and the fields of [Process].
//
// Locks are no part of it: quorum's own tests stand on this package, so it cannot import quorum. A fault that takes a process'
// place asks the test to start the next one ([World.Replace]).
package world
