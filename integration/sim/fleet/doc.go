// Package fleet simulates a large deployment: the real engine and node code of thousands of processes,
// in a testing/synctest bubble, against five masters in three regions. Virtual time says what a fleet of
// machines would: locks per second, and how long Lock takes. What bends it is in the simulation:
//
//   - A wire between each region and each master, with the delay of half a round trip.
//   - One core of each master. Every command keeps it busy for the time that real masters were measured
//     to take, and the others wait in the order they arrive.
//   - Names that several processes want.
//
// Processes have a processor each that takes no time, the network loses nothing and has no limit, and a
// message to a subscriber costs its master nothing.
//
// TestFleet loads the fleet more and more, and cuts off one region after the other. With few processes,
// as make test plays it, package history judges every lock. make fleet plays 10,000 and writes
// docs/reports/fleet.md.
//
// TestManyNamesWait is the other end of scale: one process that waits for thousands of names.
//
// The files: world_test.go has the regions, the round trips between them, where the masters and the
// processes are, and what these want; wire_test.go, master_test.go and conn_test.go are the machinery;
// process_test.go says what a process does; phase_test.go has the load and the cuts,
// report_test.go what is measured and written.
//
// A new region goes into world_test.go: its constant, roundTrip and masterRegions. The rows and columns of
// regions follow; the sentences about A, B and C in report_test.go do not.
package fleet
