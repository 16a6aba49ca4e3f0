// Package membership holds no code, only tests: an exhaustive search of how masters keep out clients
// whose lists of masters differ. It looks for two holders, and for a token that does not rise.
//
// What is searched is what ships. The rules are internal/membership's: the views, the plan by
// which a client marks blank masters, and the operator's procedures. A master compares the whole text
// of its marker, as mark.lua does, and accepts clients by it, as lists.lua does: both by the programs
// of internal/fakeredis, which script vectors hold to real servers.
//
//   - world_test.go is the state, and what a step changes in it. Read this file first.
//   - markers_test.go runs the shipped code on markers, and remembers what it answered.
//   - steps_test.go is what may happen: masters forget and restart, time passes, clients mark, commands
//     look and write. tokens_test.go adds tokens.
//   - explore_test.go has what package visited searches.
//   - search_test.go has the setups in which the rules must hold.
//   - mutants_test.go leaves out one rule of the shipped code at a time: the search must find a trace.
//
// # What stands for what
//
// Locks are not played. A master can give a lease to a client of each list that it accepts, and the
// world knows how long the last such lease may still run. Two may hold if the masters can be
// divided between clients of two lists so that each has a majority. This allows all that clients
// can do: they lock, renew, unlock and lose locks at any moment. A master that has forgotten may
// count for two: for the lease before, and for the one after.
//
// The rule that needs all masters has no search of its own: all masters include a majority.
//
// Clients look at any moment. So a client may use, for each master, anything that it showed within
// the window, or no answer. Each mark is sent by itself, so a client may stop after any of them. A
// command looks in the same way; then it writes mark after mark, anything may happen in between,
// and it may be left at any point.
//
// # What is bounded
//
// Each setup names its masters, lists, commands, how many commands run at once, how many masters
// forget, restart or have their clock set back, and how many may be silent in one look. Time is in
// ticks; a max lease has two to four of them. The window is half a max lease, less what the drift of
// clocks takes: with two ticks it is 0, so what was seen is used within its tick, and a command ends
// with the tick. All clocks have one rate. What a master showed before its clock was set back is not
// used to mark it. Time is not bounded: instants count from now, and those longer ago than the window
// are alike, so states repeat. Each search says whether it was complete.
package membership
