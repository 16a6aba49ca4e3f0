// Package model holds no code, only tests: an exhaustive search of the protocol of docs/design.md, section 4, for two holders
// and for fencing tokens that do not increase.
//
//   - protocol_test.go is the protocol: what a node does, and what a client does. It is the file to read.
//   - state_test.go is what they know, and world_test.go what may happen to them: delays, deaths, restarts, the clock.
//   - rules_test.go has the protocol stand the search, and each of its safety rules, left out, fail it.
//   - explore_test.go searches all that can come of it, breadth first, so that no shorter way leads to what it finds.
//
// # What is promised
//
// With honest clocks: no two clients hold the lock at one time, and each acquisition has a greater token than all before it.
//
// With clocks that lie (a lease may end on a node at any time, unnoticed) two may hold at one time, and one whose token was
// settled early may come to know it late. What remains is what a fenced resource needs: no two acquisitions ever have equal
// tokens, and an attempt that began after another had acquired gets a greater token than that one.
//
// Only the seed, which is a clock, makes good a counter that a node forgot. So tokens are promised over nodes that forget, or
// over clocks that lie, not over both.
//
// # What is bounded
//
// Three nodes, the rule "majority", two or three clients, one or two attempts of each. How many connections die, how many
// nodes restart, and, where there are seeds, how long it lasts, is bounded in each search and said in its log. Delays and
// renewals are not, nor is time without seeds: the states repeat, and the search comes to its end.
//
// What a connection that died may still deliver is a set: each kind of request of an attempt at most once. A holder asks a
// node only when nothing is under way there. A holder asks for a repair as soon as what the node confirmed has run out, a
// round earlier than the library does. Drift is zero: a node frees a lock no sooner than in the tick in which its holder stops. A node
// forgets all or nothing. Re-entry, several names, and two addresses of one process are left out.
//
// A reply is read when it is given, unless the search says otherwise. Where no tokens are kept this leaves nothing out: who
// reads a reply late might as well be served late, or act late. Where they are, it leaves out a reply that is passed over
// when the rule is met: the searches with late replies to requests for a grant have those too.
package model
