package membership_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// run is an operator's command, which stops before each step.
type run struct {
	world *world
	step  chan change.Step
	may   chan bool
	ended chan string
	trail []string
}

// begin starts a command, which waits before its first step.
func (w *world) begin(verb string, args []string, opts map[string]string) *run {
	w.t.Helper()
	var p *change.Procedure
	switch verb {
	case "announce":
		by, err := change.New(listOf(args[0]), listOf(args[1]))
		testkit.Must(w.t, err)
		if opts["wait"] != "" {
			by.Waits = duration(opts["wait"])
		}
		p = by.Announce()
	case "commit":
		p = change.Commit(listOf(args[0]))
	case "abort":
		p = change.Abort(listOf(args[0]))
	default:
		w.t.Fatalf("no command is called %s", verb)
	}
	r := &run{world: w, step: make(chan change.Step), may: make(chan bool), ended: make(chan string, 1)}
	by := w.driver()
	by.Before = func(step change.Step) bool {
		r.step <- step
		return <-r.may
	}
	go func() {
		report, seen, err := by.Run(context.Background(), p)
		said := ""
		if err != nil {
			said = "; " + err.Error()
		}
		for _, name := range slices.Sorted(maps.Keys(seen.Errs)) {
			said += fmt.Sprintf("; %s: %v", name, seen.Errs[name])
		}
		for _, part := range []struct {
			what  string
			names []string
		}{{"not done", report.NoAnswer}, {"blank", report.Blank}, {"not retired", strings.Fields(report.Unretired)}} {
			if len(part.names) > 0 {
				said += fmt.Sprintf("; %s: %s", part.what, strings.Join(part.names, " "))
			}
		}
		r.ended <- said
		close(r.step)
	}()
	return r
}

// goOn lets the command go on, to its end or a step. It returns the steps, and the masters if there was a mark.
func (r *run) goOn(opts map[string]string) string {
	w := r.world
	for step := range r.step {
		word := ""
		switch step.Do {
		case change.Pause:
			word = "wait"
		case change.ReadTokens:
			word = "read"
		case change.RaiseTokens:
			word = "raise"
		case change.Write:
			word = step.Names[0]
		}
		if word != "" && word == opts["until"] {
			go func() { r.step <- step }() // for the next call
			return strings.Join(r.trail, " ")
		}
		if step.Do == change.Write && opts["each"] != "" {
			time.Sleep(duration(opts["each"]))
		}
		if m := w.masters[opts["bump"]]; step.Do == change.Write && m != nil {
			marker := m.look().Marker()
			marker.Generation++
			m.Set(scripts.MarkerKey, marker.String())
		}
		switch {
		case step.Do == change.Pause:
			r.trail = append(r.trail, "wait "+testkit.Short(step.Wait))
		case word != "":
			r.trail = append(r.trail, word)
		}
		r.may <- true
	}
	return r.result(<-r.ended)
}

// result is the steps, the masters if there was one, and what else is to be said.
func (r *run) result(said string) string {
	text := strings.Join(r.trail, " ")
	if text == "" && said == "" {
		return "nothing is left to write"
	}
	if text == "" {
		return strings.TrimPrefix(said, "; ")
	}
	return text + " => " + r.world.state() + said
}

// crash ends the command before its next step.
func (r *run) crash() string {
	if _, goesOn := <-r.step; !goesOn {
		return ""
	}
	r.may <- false
	for range r.step {
	}
	<-r.ended
	return r.result("")
}

func (w *world) pending(letters string) string {
	views := map[string]*membership.View{}
	for name, m := range w.masters {
		if v := m.look(); v != nil {
			views[name] = v
		}
	}
	if to := change.Pending(listOf(letters), views); to != nil {
		return to.String()
	}
	return "none"
}

func (w *world) admit(name string, opts map[string]string) string {
	var list *scripts.List
	if opts["list"] != "" {
		list = listOf(opts["list"])
	}
	call, err := change.Admit(w.masters[name].look(), list)
	if err != nil {
		return err.Error()
	}
	r, err := w.masters[name].run(call)
	testkit.Must(w.t, err)
	testkit.Check(w.t, r.Mark.Written, "not written")
	return w.state()
}

// client is one that has looked.
type client struct {
	membership.Client
	views []*membership.View
}

// newClient returns a client of a list that has looked.
func (w *world) newClient(letters string, opts map[string]string) *client {
	c := &client{Client: membership.Client{List: listOf(letters), Found: opts["found"] != "no", Exists: opts["exists"] == "yes"}}
	quarantines := strings.Split(cmp.Or(opts["quarantine"], "30s"), ",")
	c.Quarantine = func(i int) time.Duration { return duration(quarantines[min(i, len(quarantines)-1)]) }
	c.views = w.views(c.List)
	return c
}

// ready says when a majority grants, and what each master has against it.
func (c *client) ready() string {
	errs, all := make([]error, len(c.views)), make([]membership.Readiness, len(c.views))
	for i, v := range c.views {
		if v == nil {
			errs[i] = errors.New("no answer")
		}
	}
	said := ""
	for i, name := range c.List.Names() {
		all[i] = c.Readiness(c.views, errs, i)
		if all[i].Err != nil {
			said += fmt.Sprintf("; %s: %v", name, all[i].Err)
		} else if all[i].In > 0 {
			said += fmt.Sprintf("; %s in %s", name, testkit.Short(all[i].In))
		}
	}
	in, ok := membership.ReadyIn(all, quorate.Rule{N: len(all), Need: len(all)/2 + 1})
	switch {
	case !ok:
		return "never" + said
	case in > 0:
		return "in " + testkit.Short(in) + said
	}
	return "now" + said
}

// mark has a client write what it may, as a Locker does: it looks again when the quarantines of its claims are over.
func (w *world) mark(c *client) string {
	var said []string
	write := func(marks []membership.Mark) bool {
		said = append(said, strings.Join(w.write(c, marks), " "))
		return true
	}
	c.Settle(c.views, write)
	if wait := membership.ClaimWaits(c.views, c.List); wait > 0 {
		said = append(said, "wait "+testkit.Short(wait))
		time.Sleep(wait)
		c.views = w.views(c.List)
		c.Settle(c.views, write)
	}
	if len(said) == 0 {
		return "nothing"
	}
	return strings.Join(said, " | ") + " => " + w.state()
}

// write writes a client's marks, and returns their masters.
func (w *world) write(c *client, marks []membership.Mark) (names []string) {
	for _, mark := range marks {
		name := c.List.Names()[mark.Node]
		names = append(names, name)
		if r, err := w.masters[name].run(mark.Call); err != nil {
			c.views[mark.Node] = nil
		} else {
			c.views[mark.Node] = c.views[mark.Node].Wrote(*r.Mark)
		}
	}
	return names
}

// relation says what a master makes of clients with the list, and why it refuses them.
func relation(v *membership.View, list *scripts.List) string {
	switch v.Relation(list) {
	case membership.Blank:
		return "blank"
	case membership.Claimed:
		return "claimed"
	case membership.Accepts:
		return "accepts"
	}
	err := v.Refusal(list)
	for kind, is := range map[string]error{"list": membership.ErrDiffers, "max lease": membership.ErrMaxLease, "replicas": membership.ErrFailover} {
		if errors.Is(err, is) {
			return fmt.Sprintf("refuses (%s): %v", kind, err)
		}
	}
	return fmt.Sprintf("refuses with no kind of error: %v", err)
}

// says returns what else a look says.
func says(v *membership.View) string {
	said := fmt.Sprintf("marked %v, retired %v, max lease %v, quarantine %v", v.IsMarked(), change.IsRetired(v), v.MaxLease(), v.Quarantine())
	if left, given := change.AdmissionLeft(v); given {
		said += fmt.Sprintf(", admitted for another %v", left)
	}
	return said
}
