package scripts

// MaxRun is how many calls one run of a script may carry out. A run delays all other clients of its
// node.
const MaxRun = 32

// CanShare reports whether the call may share a run of a script with others like it: a fresh
// acquire, or a holder's release to depth 0, of one name. Runs read its arguments by their places
// (calls.go). A single request is sent on its own: a run of one saves nothing, and a permanent
// error would come a round trip later.
func (c Call) CanShare() bool {
	switch c.script {
	case acquireScript:
		return len(c.args) == acquireArgs && c.args[acquireToken] == any(int64(0)) && c.args[acquireDepth] == any(1)
	case releaseScript:
		return len(c.args) == releaseArgs && c.frees && !c.reads && !c.bars
	}
	return false
}

// CanShareWith reports whether two calls that can share a run can share the same one.
func (c Call) CanShareWith(other Call) bool {
	return c.script == other.script && c.list == other.list &&
		(c.script == releaseScript || c.args[acquireLease] == other.args[acquireLease])
}

// RunOp is [Call.Op] of the run that the call shares.
func (c Call) RunOp() string { return c.runScript().name }

// runScript is the script of a run that the call shares.
func (c Call) runScript() *Script {
	if c.IsRelease() {
		return releasesScript
	}
	return acquiresScript
}

// RunCommand is [Call.Command] for calls that share a run. No release among them needs a tombstone.
func RunCommand(dst []any, calls []Call, source bool, conn ConnArgs) (string, []any) {
	script, start := calls[0].runScript(), len(dst)
	if calls[0].IsRelease() {
		dst = append(dst, script.sha, len(calls))
		for i := range calls {
			dst = append(dst, calls[i].args[releaseKey])
		}
		for i := range calls {
			dst = append(dst, calls[i].args[releaseOwner], calls[i].args[releaseChannel])
		}
	} else {
		dst = append(dst, script.sha, 1+3*len(calls), any(MarkerKey))
		for _, place := range [...]int{acquireTomb, acquireCounter, acquireKey} {
			for i := range calls {
				dst = append(dst, calls[i].args[place])
			}
		}
		dst = append(dst, conn.Expected, calls[0].args[acquireLease])
		for i := range calls {
			dst = append(dst, calls[i].args[acquireSeed])
		}
	}
	return script.command(dst, start, source, conn.Prefix)
}

// RunReply is the reply to calls that shared a run.
type RunReply struct {
	all  int64 // when each is nil: 1 for the usual outcome of every call, 0 for no grant
	each []any
}

// ParseRun reads the reply to the calls of this run; errors wrap ErrReply.
func (c Call) ParseRun(v any, calls int) (RunReply, error) {
	switch v := v.(type) {
	case int64:
		if v == 1 || v == 0 && c.IsAcquire() {
			return RunReply{all: v}, nil
		}
	case []any:
		if len(v) == calls {
			return RunReply{each: v}, nil
		}
	}
	return RunReply{}, malformed(c.runScript(), v)
}

// Of reads the reply to the i-th call of the run. alone means that the call did nothing, and must be sent alone. The
// error is an error reply to this call, or wraps ErrReply.
func (r RunReply) Of(i int, c Call) (reply Reply, alone bool, err error) {
	if r.each == nil {
		switch {
		case r.all == 0:
			return reply, true, nil
		case c.IsRelease():
			reply.Release.Found = 1
		default:
			reply.Acquire = AcquireReply{Outcome: Granted, Token: uint64(c.args[acquireSeed].(int64))}
		}
		return reply, false, nil
	}
	v := r.each[i]
	if refused, ok := v.(error); ok {
		return reply, false, refused
	}
	switch v := v.(type) {
	case int64: // of an acquire, anything but 0 is malformed: tokens are text
		if c.IsAcquire() && v == 0 {
			return reply, true, nil
		}
	case []byte:
		token, ok := count(string(v))
		if !ok || token == 0 || !c.IsAcquire() {
			return reply, false, malformed(c.runScript(), v)
		}
		reply.Acquire = AcquireReply{Outcome: Granted, Token: token}
		return reply, false, nil
	}
	reply, err = c.Parse(v)
	if c.IsAcquire() && reply.Acquire.Outcome != HeldByAnother {
		return Reply{}, false, malformed(acquiresScript, v)
	}
	return reply, false, err
}
