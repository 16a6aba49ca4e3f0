package scripts

import "time"

// Call is one run of a script. It is immutable: one Call may go to many nodes, and be resent.
type Call struct {
	script *Script
	args   []any     // the arguments of EVALSHA
	frees  bool      // a release to level 0
	batch  []Renewal // of renew
}

// Op returns the script's name, for errors.
func (c Call) Op() string { return c.script.name }

// IsAcquire reports whether the call is a request for a grant.
func (c Call) IsAcquire() bool { return c.script == acquireScript }

// IsRelease reports whether the call is a release, to any level. A release must reach its node.
func (c Call) IsRelease() bool { return c.script == releaseScript }

// Frees reports whether the call is a release to level 0, which ends the owner's hold.
func (c Call) Frees() bool { return c.frees }

// Released returns the owner's id and the names of a release, for the log. The call must be a
// release.
func (c Call) Released() (owner string, names []string) {
	keys := c.args[1].(int)
	for _, name := range c.args[3 : 2+keys] {
		names = append(names, name.(string))
	}
	return c.args[2+keys].(string), names
}

// ConnArgs are the arguments of a call that depend on its connection, boxed for sending.
type ConnArgs struct {
	Run       any // for acquire and admit: [MarkerRun] of the connection's process and database
	Tombstone any // for release: for how long, in ms, it bars its owner from a grant that arrives late; or NoTombstone
}

// NoTombstone is the Tombstone of a release whose owner has no request that may arrive late.
var NoTombstone any = "0"

// Command returns the command's name, and dst with the command's arguments appended. With source,
// the command carries the script's text in place of its hash.
func (c Call) Command(dst []any, source bool, conn ConnArgs) (string, []any) {
	start := len(dst)
	dst = append(dst, c.args...)
	switch c.script {
	case acquireScript, admitScript:
		dst[len(dst)-1] = conn.Run
	case releaseScript:
		dst[len(dst)-1] = conn.Tombstone
	}
	if source {
		dst[start] = c.script.source
		return "EVAL", dst
	}
	return "EVALSHA", dst
}

// AcquireArgs are the arguments of [Acquire].
type AcquireArgs struct {
	Names    []Name
	Owner    Owner
	Level    int
	Lease    Millis
	MaxLease Millis // the deployment's: a node whose marker carries another one is stale
	Token    uint64 // 0 for a fresh grant; the lock's token for a re-entry or a repair
	Seed     uint64 // the least token of a grant, where a lost counter restarts: the client's clock in µs
}

// Acquire requests a grant of all names or none. The connection adds the marker's run ([ConnArgs]).
func Acquire(a AcquireArgs) Call {
	args := make([]any, 0, 13+2*len(a.Names))
	args = append(args, acquireScript.sha, 2+2*len(a.Names), any(MarkerKey), a.Owner.tombstone)
	for _, n := range a.Names {
		args = append(args, n.key, n.counter)
	}
	args = append(args, a.Owner.id, a.Level, a.Lease.boxed, int64(a.Token), int64(a.Seed),
		any(CounterTTLMillis), a.MaxLease.boxed, a.Names[0].channel, "")
	return Call{script: acquireScript, args: args}
}

// Renewal is one lock in a batch for [Renew].
type Renewal struct {
	Names []Name
	Owner Owner
	Token uint64
	Lease Millis
}

// Renew raises the time to live of each lock whose owner is still there.
func Renew(batch []Renewal) Call {
	keys := 0
	for _, r := range batch {
		keys += 2 * len(r.Names)
	}
	args := make([]any, 0, 3+keys+keys/2*3)
	args = append(args, renewScript.sha, keys)
	for _, r := range batch {
		for _, n := range r.Names {
			args = append(args, n.key, n.counter)
		}
	}
	args = append(args, any(CounterTTLMillis))
	for _, r := range batch {
		token := any(int64(r.Token))
		for range r.Names {
			args = append(args, r.Owner.id, token, r.Lease.boxed)
		}
	}
	return Call{script: renewScript, args: args, batch: batch}
}

// Release releases the names at level 0, and else lowers the lock to that level. The connection
// decides whether the owner gets a tombstone ([ConnArgs]).
func Release(names []Name, owner Owner, level int) Call {
	args := make([]any, 0, 6+2*len(names))
	args = append(args, releaseScript.sha, 1+len(names), owner.tombstone)
	for _, n := range names {
		args = append(args, n.key)
	}
	args = append(args, owner.id, level)
	for _, n := range names {
		args = append(args, n.channel)
	}
	return Call{script: releaseScript, args: append(args, NoTombstone), frees: level == 0}
}

// Raise writes a token back to the counters of the names, while the owner still has the grant that
// returned granted.
func Raise(names []Name, owner Owner, granted, token uint64) Call {
	args := make([]any, 0, 5+2*len(names))
	args = append(args, raiseScript.sha, 2*len(names))
	for _, n := range names {
		args = append(args, n.key, n.counter)
	}
	args = append(args, owner.id, int64(token), any(CounterTTLMillis), int64(granted))
	return Call{script: raiseScript, args: args}
}

// Inspect reads a node's state of a name.
func Inspect(name Name) Call {
	return Call{script: inspectScript, args: []any{inspectScript.sha, 3, any(MarkerKey), name.key, name.counter}}
}

// Force deletes the lock at a name, and bars the owners from new grants for as long as ban.
func Force(name Name, owners []Owner, ban time.Duration) Call {
	args := []any{forceScript.sha, 1 + len(owners), name.key}
	for _, o := range owners {
		args = append(args, o.tombstone)
	}
	return Call{script: forceScript, args: append(args, name.channel, ToMillis(ban).boxed)}
}

// AdmitArgs are the arguments of [Admit].
type AdmitArgs struct {
	MaxLease   time.Duration
	Quarantine time.Duration // of a process that the marker does not name; 0 for none
	ByOperator bool          // end any quarantine at once
}

// Admit writes the node's marker unless it is right already. The connection adds the run
// ([ConnArgs]).
func Admit(a AdmitArgs) Call {
	return Call{script: admitScript, args: []any{admitScript.sha, 1, any(MarkerKey),
		ToMillis(a.MaxLease).boxed, ToMillis(a.Quarantine).boxed, a.ByOperator, ""}}
}

// Millis is a duration boxed for sending, made once for many calls.
type Millis struct{ boxed any }

// ToMillis rounds up: a lease on the server is never shorter than the client's.
func ToMillis(d time.Duration) Millis {
	return Millis{int64((d + time.Millisecond - 1) / time.Millisecond)}
}
