// Package model holds no code, only tests: an exhaustive search of the protocol of docs/design.md,
// section 4, for two holders and for fencing tokens that do not increase.
//
//   - protocol_test.go is the protocol: what a node does, and what a client does. Read this file
//     first.
//   - state_test.go is the state of nodes and clients. world_test.go is what may happen to them:
//     delays, dead connections, restarts, the clock.
//   - rules_test.go searches the protocol as it is, and once for each safety rule that is left out.
//     The first search must find nothing, the others a violation.
//   - explore_test.go searches all reachable states breadth first, so a trace that it finds is a
//     shortest one.
//
// # What is promised
//
// With honest clocks, no two clients hold the lock at one time, and each acquisition has a greater
// token than all before it.
//
// With lying clocks a lease may end on a node at any time, and its holder does not notice. Two
// clients may then hold at one time, and a client may learn late of a token that was settled early.
// A fenced resource still has what it needs: no two acquisitions ever have equal tokens, and an
// attempt that began after another client had acquired gets a greater token than that client.
//
// Only the seed, which is a clock, restores a counter that a node forgot. So tokens are promised
// over nodes that forget or over clocks that lie, not over both.
//
// # What is bounded
//
// Three nodes, the quorum rule "majority", two or three clients, one or two attempts for each. Each
// search bounds how many connections die and how many nodes restart, and, where there are seeds,
// the time, and logs these bounds. Delays and renewals are not bounded, nor is time without seeds:
// the states repeat, and the search completes.
//
// A token counter is shared by all names that hash to it. The other names of a counter, its
// neighbours, are one step of the world: a counter goes up by one, on any node, at any time. That
// leaves out nothing: the hash, the tombstones and the requests of a neighbour are its own, and all
// that its grants, write-backs, renewals and repairs do to this name is to raise the counter, by
// one or by several steps. And it adds nothing: each step is an attempt of a neighbour that one
// node grants. How many such steps happen is bounded, and logged.
//
// An attempt asks all nodes at once. In the searches with second waves it may also leave out one
// node, any one, and ask it at any later moment, or never: then the node gets no release, either,
// and the client's next attempt is the first that it sees. A repair may come before the request.
//
// The requests that a dead connection may still deliver are a set: each kind of request of an
// attempt at most once. A holder sends to a node only when no request is under way there. A holder
// asks for a repair as soon as the time that the node confirmed has run out, one renewal earlier
// than the library does. Drift is zero: a node frees a lock no sooner than in the tick in which its
// holder stops. A node forgets all or nothing. Re-entry, several names, and two addresses of one
// process are left out.
//
// A reply is read when it is given, unless the search says otherwise. Without tokens this leaves
// nothing out: a client that reads a reply late has the same states as one that is served late or
// acts late. With tokens it leaves out a reply that is unread when the quorum is reached: the
// searches with late replies to requests for a grant cover those.
package model
