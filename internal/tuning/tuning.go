// Package tuning has what tests change in package quorum, where it depends on the load otherwise.
package tuning

// QuorumFirst decides for each attempt of a locker, by its number, whether it asks a quorum first,
// where its approach allows that. A nil function leaves it to the load. A test sets it before it
// makes a locker.
var QuorumFirst func(attempt uint64) bool
