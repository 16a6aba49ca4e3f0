package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A lock with a lease is no plain mutex: a hold can end by itself, without a call. So the end of
// each hold is an operation of the model. It takes effect between the instant at which the holder
// stopped believing (Unlock called, deadline, context ended) and the instant at which the end was
// seen (Unlock returned, the loss noticed), or at any time later if it was never seen. The state is
// that of one name:
//
//   - enter, depth 1, with a token: only while the name is free, only with a token above the last
//     one.
//   - enter, depth n > 1: only by the owner, with its token, at depth n − 1.
//   - leave, of a depth above 1: lowers the owner's depth; changes nothing after the end of the
//     lock.
//   - end: the owner's lock is over, at whatever depth. The last token stays.
//   - read, with a token: only while no writer holds, with a token above the last writer's, and no lower than
//     the last reader's. It adds the owner to the readers. Readers enter again unseen.
//   - lower: the owner, which holds alone, is a reader from now on.
//
// An acquire without a known return and without a known token is left out: its grant, if any, ended
// by itself, and tokens may skip values, so a history that it explains is also explained without
// it. An acquire with a known token may take effect at any time after its call, and end at any time
// after that.
//
// With dishonest clocks two clients may hold at once, and only the order of the tokens remains of
// the model: enter of depth 1. checkTokens decides that completely, so the search then only draws
// the view.

type opKind int

const (
	enter opKind = iota
	leave
	end
	read
	lower
)

// op is an operation. It contains everything known of its outcome, so operations have no output.
type op struct {
	kind  opKind
	owner string
	depth int
	token uint64
	how   string // how the hold ended
}

// state is a name's. The zero value is a name that was never held.
type state struct {
	owner   string // "" for a free name, at depth 0
	depth   int
	last    uint64 // the last token
	readers string // their owners, each after a comma, in order
	shared  bool   // the last token is a reader's
}

func (s state) reads(owner string) bool { return slices.Contains(strings.Split(s.readers, ","), owner) }

func (s state) add(owner string) state {
	all := append(strings.Split(s.readers, ","), owner)
	slices.Sort(all)
	s.readers = strings.Join(all, ",")
	return s
}

func (s state) without(owner string) state {
	all := slices.DeleteFunc(strings.Split(s.readers, ","), func(other string) bool { return other == owner })
	s.readers = strings.Join(all, ",")
	return s
}

func (s state) step(o op, exclusive bool) (bool, state) {
	switch {
	case o.kind == enter && o.depth == 1:
		free := s.depth == 0 && s.readers == "" || !exclusive
		return free && o.token > s.last, state{owner: o.owner, depth: 1, last: o.token}
	case o.kind == read:
		free := s.depth == 0 || !exclusive
		rises := o.token > s.last || o.token == s.last && s.shared
		next := state{last: o.token, readers: s.readers, shared: true}
		return free && rises, next.add(o.owner)
	case o.kind == lower:
		mine := s.depth > 0 && s.owner == o.owner
		if !mine { // it was over
			return true, s
		}
		return true, state{last: s.last}.add(o.owner)
	case o.kind == end && s.reads(o.owner):
		return true, s.without(o.owner)
	case o.kind == enter:
		mine := s.depth > 0 && s.owner == o.owner && o.token == s.last
		return mine && o.depth == s.depth+1, state{owner: s.owner, depth: s.depth + 1, last: s.last}
	case o.kind == leave && s.owner == o.owner && s.depth > 1:
		return true, state{owner: s.owner, depth: s.depth - 1, last: s.last}
	case o.kind == leave:
		return true, s
	default:
		return s.depth > 0 && s.owner == o.owner, state{last: s.last}
	}
}

func (o op) String() string {
	switch o.kind {
	case enter:
		return fmt.Sprintf("%s enters, depth %d, token %d", o.owner, o.depth, o.token)
	case read:
		return fmt.Sprintf("%s reads, token %d", o.owner, o.token)
	case lower:
		return o.owner + " is downgraded"
	case leave:
		return fmt.Sprintf("%s leaves depth %d", o.owner, o.depth)
	default:
		return fmt.Sprintf("%s ends: %s", o.owner, o.how)
	}
}

func (s state) String() string {
	if s.readers != "" {
		return fmt.Sprintf("read by %s, last token %d", strings.TrimPrefix(s.readers, ","), s.last)
	}
	if s.depth == 0 {
		return fmt.Sprintf("free, last token %d", s.last)
	}
	return fmt.Sprintf("%s holds, depth %d, token %d", s.owner, s.depth, s.last)
}

func model(exclusive bool) porcupine.Model {
	return porcupine.Model{
		Init:              func() any { return state{} },
		Step:              func(s, o, _ any) (bool, any) { return s.(state).step(o.(op), exclusive) },
		DescribeOperation: func(o, _ any) string { return o.(op).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
}

func (h *history) operations(exclusive bool) []porcupine.Operation {
	var all []porcupine.Operation
	add := func(client int, call, ret int64, o op) {
		all = append(all, porcupine.Operation{ClientId: client, Input: o, Call: call, Return: max(call, ret)})
	}
	for _, of := range h.holds {
		if of.Return == Unknown && of.Token == 0 {
			continue
		}
		if of.Shared {
			add(of.Client, of.Call, of.Return, op{kind: read, owner: of.Owner, token: of.Token})
		} else {
			add(of.Client, of.Call, of.Return, op{kind: enter, owner: of.Owner, depth: 1, token: of.Token})
		}
		if !exclusive {
			continue
		}
		if of.lower != nil {
			add(of.Client, of.lower.Call, of.lower.Return, op{kind: lower, owner: of.Owner})
		}
		for _, e := range of.inner {
			switch {
			case of.reads != never: // a reader's depths count for nobody else
			case e.Kind == Released:
				add(e.Client, e.Call, e.Return, op{kind: leave, owner: e.Owner, depth: e.Depth})
			case e.Kind == Acquired && e.Return != Unknown:
				add(e.Client, e.Call, e.Return, op{kind: enter, owner: e.Owner, depth: e.Depth, token: e.Token})
			}
		}
		switch {
		case of.Return == Unknown:
			add(of.Client, of.Call, Unknown, op{kind: end, owner: of.Owner, how: "unseen"})
		case of.end != never:
			add(of.Client, max(of.end, of.Call), of.over, op{kind: end, owner: of.Owner, how: of.how})
		}
	}
	return all
}

// checkModel lets porcupine look for an order that explains the history, and writes its view of a
// violation.
func (h *history) checkModel(opts Options) {
	model, operations := model(opts.HonestClocks), h.operations(opts.HonestClocks)
	if opts.HonestClocks {
		switch porcupine.CheckOperationsTimeout(model, operations, timeout) {
		case porcupine.Illegal:
			h.report(Unknown, "porcupine", "no order of its %d operations explains the history", len(operations))
		case porcupine.Unknown:
			h.report(Unknown, "porcupine", "undecided after %v, with %d operations", timeout, len(operations))
		}
	}
	if opts.ViewDir == "" || len(h.violations) == 0 {
		return
	}
	_, info := porcupine.CheckOperationsVerbose(model, operations, timeout)
	path, err := writeView(opts.ViewDir, h.name, func(f *os.File) error { return porcupine.Visualize(model, info, f) })
	last := &h.violations[len(h.violations)-1]
	if err != nil {
		last.Detail += fmt.Sprintf(" (no view: %v)", err)
		return
	}
	last.Detail += fmt.Sprintf(" (view: %s)", path)
}

// writeView makes a file of its own for a name's view: one directory may collect those of many runs.
func writeView(dir, name string, write func(*os.File) error) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
	f, err := os.CreateTemp(dir, "history-"+safe[:min(len(safe), 40)]+"-*.html")
	if err != nil {
		return "", err
	}
	if err := write(f); err != nil {
		f.Close()
		return "", err
	}
	return filepath.Clean(f.Name()), f.Close()
}
