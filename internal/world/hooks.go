package world

import "slices"

// Script is a script that a master has run, before it answers.
type Script struct {
	Master int
	Client string // the remote address of its connection
	Name   string
	Args   []string
	Reply  any
	Err    error
}

// Before has these masters, or all, call do before they answer a script, from now on; nil for nothing. The master is locked
// during the call.
func (w *World) Before(do func(Script), masters ...int) {
	for i := range w.before {
		switch {
		case len(masters) > 0 && !slices.Contains(masters, i):
		case do == nil:
			w.before[i].Store(nil)
		default:
			w.before[i].Store(&do)
		}
	}
}

// hear is a [fakeredis.Master]'s Trace.
func (w *World) hear(master int) func(client, script string, args []string, reply any, err error) {
	return func(client, script string, args []string, reply any, err error) {
		w.ranMu.Lock()
		w.ran[script]++
		w.ranMu.Unlock()
		if do := w.before[master].Load(); do != nil {
			(*do)(Script{master, client, script, args, reply, err})
		}
	}
}

// Ran returns how many scripts of these names the masters have run, of all names if there is none.
func (w *World) Ran(scripts ...string) (n int) {
	w.ranMu.Lock()
	defer w.ranMu.Unlock()
	if len(scripts) == 0 {
		for _, times := range w.ran {
			n += times
		}
	}
	for _, script := range scripts {
		n += w.ran[script]
	}
	return n
}
