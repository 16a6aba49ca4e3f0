// Package testlock is how package quorumtest has package quorum make a lock that no master has granted. It keeps such a
// lock out of quorum's own interface, where a program could make one by mistake.
package testlock

import "context"

// Context returns the context of a lock for tests. Package quorum sets it.
var Context func(parent context.Context, token uint64, names []string) context.Context
