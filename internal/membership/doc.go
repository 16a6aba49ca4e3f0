// Package membership decides whom a node of a lock accepts: which list of masters its clients must
// have, who may write that list, and how it is changed. It is pure: it turns views of nodes into
// marks to write, and knows no connections.
//
// A quorum is a quorum of one list. Two clients with different lists can both have a majority, and
// never meet. So each node carries a list in its marker ([scripts.Marker]), every grant and renewal
// compares it with the client's, and this package keeps two lists whose quorums do not meet from
// both being carried by a quorum of their nodes:
//
//   - A blank node (new, restarted or flushed) is marked only by a client that a majority of its list
//     accepts, or when all nodes of the list have answered and none carries another
//     ([Client.Plan]).
//   - The list changes by one member at a time (package change): majorities of two such lists meet.
//
// The tests of package quorum/model/membership search this code, and mutants of it, for two holders.
package membership
