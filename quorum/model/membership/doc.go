// Package membership holds no code, only tests: an exhaustive search of how masters keep out
// clients whose lists of masters differ, for two clients that hold the lock at one time.
//
//   - protocol_test.go is the protocol: what a client of the lock does, how clients mark blank
//     nodes, and what the operator's command does. Read this file first.
//   - state_test.go is the state. world_test.go is what may happen to it: restarts, the clock,
//     marks that are late.
//   - rules_test.go searches the protocol as it is, and once for each rule that is left out. The
//     first searches must find nothing, the others two holders.
//   - limits_test.go searches the protocol as it was first written down, and what is not covered.
//   - explore_test.go searches breadth first, so a trace that it finds is a shortest one.
//
// # The protocol
//
// A node is blank, or it carries members, a generation, and, while a change is under way, the next
// members. It grants and renews only for a client whose list is one of the two. A node that is new,
// restarted or flushed is blank, and grants and renews nothing.
//
// A client marks a blank node by one of two rules, and a quarantine begins there. With evidence it
// copies a marker: a quorum of its list let it in within the last max lease, and it has read a
// marker of theirs. Without evidence all nodes of its list must answer, each blank, claimed for its
// list, or letting it in. It claims the blank ones in the order of the names. Once the quarantines
// of all claims are over, a client looks again, and confirms them. Claims and confirmations come
// within a max lease of the first look before them, and stop where a compare-and-set fails. A
// claimed node lets nobody in.
//
// The operator's command changes a list by one member at a time. It writes the next members on
// every member of the new list. A commit makes them the members, and the generation rises. An abort
// takes them away, and the generation rises. After either, the next change waits for a max lease. A
// removed node is not written to.
//
// # What stands for what
//
// Requests are carried out and answered at once: a client that is served later holds for less time.
// A client that unlocks or loses the lock frees it on all nodes at once, which lets others in
// earliest. Unlocking late, and requests on dead connections, are in the model of the lock.
//
// All clients of one list mark nodes as one client that always knows what the best informed of them
// knows, since knowing more never stops a client from marking. One client of a list at a time looks
// and claims; it may stop at any point, and the next one begins anew. Where a setup says free,
// clients claim at any time without a look. A node that is flushed twice looks the same both times.
//
// The command reads only members of the new list, so a removed node, which keeps its last marker,
// stands for one that was dead at the time.
//
// # What is bounded
//
// Two clients of the lock, up to three lists, five nodes, up to three restarts or flushes, leases
// of one or two ticks. All leases, quarantines and waits are equal. Time and renewals are not
// bounded: the states repeat, and each search completes. Each logs its bounds. Drift is zero.
package membership
