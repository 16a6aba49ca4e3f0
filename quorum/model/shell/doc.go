// Package shell searches the shell around the pure packages: packages quorum, engine, queue and
// schedule, as they ship, with pipelines and masters in memory. A search compiles them with mutexes
// that turn each section into a step ([steps.Mutex]), and plays a scenario in one order of steps
// after the other: sections, replies, what callers do, and time. In every order, no two locks are
// valid at once, tokens rise, no context is asked or ended with a mutex locked, every call returns,
// and no key is left. A mutant leaves out one rule of the shell, and must be found.
//
// An order differs from the usual one, in which a goroutine runs as long as it can, in up to as many places as the
// bound allows.
//
// What it does not play: a step goes from one mutex to the next, so code between them is not divided. Time passes in
// jumps, or when nobody can go on. Connections die only with their master's process, and lose the replies that are
// not read yet; the simulation and chaos play the rest.
package shell
