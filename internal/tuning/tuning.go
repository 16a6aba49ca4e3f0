// Package tuning contains what tests change in package quorum, where the load decides otherwise.
package tuning

// QuorumFirst decides whether an attempt whose approach allows it asks a quorum first. It gets the
// number of the locker's latest owner: the attempt's, unless another one has begun since. Where it
// is nil, the load decides, and one attempt in 20 ms asks all nodes. A test sets it before it makes a
// locker.
var QuorumFirst func(attempt uint64) bool
