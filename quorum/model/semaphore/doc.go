// Package semaphore searches what clients of a semaphore do: the shipped choice of slots (package slots),
// the shipped names and calls, and masters that are the pure part of internal/fakeredis. A client asks
// the masters one after another, so others come in between at any moment. The rest of a lock is searched
// in package lease: here a client that a majority has granted holds until it releases.
//
// The promises:
//
//   - there are never more holders than slots, and no slot has two;
//   - a call gets the number of different slots that it wants, all below the number of slots that it said;
//   - a call that meets no other client gets its slots, if enough are free.
package semaphore
