package scripts

import "time"

// AcquireArgs says what is asked of a node.
type AcquireArgs struct {
	Names    []Name
	Owner    Owner
	Level    int
	Lease    Millis
	MaxLease Millis // the deployment's: a node whose marker says otherwise refuses
	Token    uint64 // 0 for a fresh grant; what the owner holds for a re-entry or a repair
	Seed     uint64 // where a counter that was lost starts again: the client's clock in µs
}

// Acquire asks for a grant of all names or none. The connection adds what the marker must say (ConnArgs).
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

// Renewal is one lock of a batch to renew.
type Renewal struct {
	Names []Name
	Owner Owner
	Token uint64
	Lease Millis
}

// Renew raises the time to live of many locks, each where its owner is still there.
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

// Release lets go of the names with level 0, and else leaves the lock at that level. The
// connection decides whether the owner gets a tombstone (ConnArgs).
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

// Raise writes a token back to the counters of an owner that still has the grant whose counter was granted.
func Raise(names []Name, owner Owner, granted, token uint64) Call {
	args := make([]any, 0, 5+2*len(names))
	args = append(args, raiseScript.sha, 2*len(names))
	for _, n := range names {
		args = append(args, n.key, n.counter)
	}
	return Call{script: raiseScript, args: append(args, owner.id, int64(token), any(CounterTTLMillis), int64(granted))}
}

// Inspect reads what a node knows of a name.
func Inspect(name Name) Call {
	return Call{script: inspectScript, args: []any{inspectScript.sha, 3, any(MarkerKey), name.key, name.counter}}
}

// Force deletes the lock at a name, and bars the owners from coming back for as long as ban.
func Force(name Name, owners []Owner, ban time.Duration) Call {
	args := []any{forceScript.sha, 1 + len(owners), name.key}
	for _, o := range owners {
		args = append(args, o.tombstone)
	}
	return Call{script: forceScript, args: append(args, name.channel, ToMillis(ban).boxed)}
}

// AdmitArgs says how careful to be with a node. Which process it is, the connection adds (ConnArgs).
type AdmitArgs struct {
	MaxLease   time.Duration
	Quarantine time.Duration // for a process not seen before; 0 for none
	ByOperator bool          // admitted at once
}

// Admit keeps the node's marker.
func Admit(a AdmitArgs) Call {
	return Call{script: admitScript, args: []any{admitScript.sha, 1, any(MarkerKey),
		ToMillis(a.MaxLease).boxed, ToMillis(a.Quarantine).boxed, a.ByOperator, ""}}
}

// Millis is a time as the scripts take it, made once for many calls.
type Millis struct{ boxed any }

// ToMillis rounds up: a lease is never shorter on the server than was asked for.
func ToMillis(d time.Duration) Millis {
	return Millis{int64((d + time.Millisecond - 1) / time.Millisecond)}
}
