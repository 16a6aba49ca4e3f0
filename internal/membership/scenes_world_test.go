package membership_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

const maxLease = 30 * time.Second

// world is masters a, b, c and so on, in a bubble, with those who look at them and write to them.
type world struct {
	t       *testing.T
	names   []string
	masters map[string]*master
	runs    map[string]*run    // of commands, by their names
	clients map[string]*client // that have looked
}

type master struct {
	*fakeredis.Master
	name   string
	away   bool
	partly bool       // of several calls at once the last gets no reply
	conn   redis.Conn // nil until it is needed
}

// next ends what runs, and begins again with new masters.
func (w *world) next(markers []string) {
	w.end()
	*w = world{t: w.t, masters: map[string]*master{}, runs: map[string]*run{}, clients: map[string]*client{}}
	for i, marker := range markers {
		name := string(rune('a' + i))
		w.names = append(w.names, name)
		w.masters[name] = &master{Master: fakeredis.New(time.Now, uint64(i+1)), name: name}
		w.put(name, marker)
	}
}

// end ends all that runs.
func (w *world) end() {
	for _, r := range w.runs {
		r.crash()
	}
	for _, m := range w.masters {
		m.disconnect()
		m.Stop()
	}
}

func (w *world) befalls(what, name string) {
	m := w.masters[name]
	switch what {
	case "flush":
		m.Flush()
	case "stop":
		m.Crash(fakeredis.Everything)
	case "restart":
		m.Crash(fakeredis.Everything)
		m.Start()
	}
	m.disconnect()
}

func (m *master) disconnect() {
	if m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
}

func (m *master) do(command string, args ...any) (any, error) {
	if !m.Up() || m.away {
		return nil, errors.New("no reply")
	}
	if m.conn == nil {
		m.conn = testkit.Pipe(m.Serve)
	}
	return m.conn.Do(command, args...)
}

// process is what connections know of the master.
func (m *master) process() scripts.Process {
	info, _ := m.do("INFO", "server")
	return scripts.Process{Run: scripts.MarkerRun(redisconn.ReadInfo(info)["run_id"], 0), MaxLease: maxLease, Member: m.name}
}

// run runs a script.
func (m *master) run(call scripts.Call) (r scripts.Reply, err error) {
	command, args := call.Command(nil, true, scripts.ConnArgs{Process: m.process().String()})
	reply, err := m.do(command, args...)
	if err != nil {
		return r, err
	}
	return call.Parse(reply)
}

// look returns the view of a look; nil if there is no reply.
func (m *master) look() *membership.View {
	r, err := m.run(scripts.Look())
	if err != nil {
		return nil
	}
	return membership.Read(*r.Look, 0)
}

// driver carries out procedures over these connections.
func (w *world) driver() change.Driver {
	now := func() clock.Instant { return clock.Instant(time.Now().UnixNano()) }
	return change.Driver{Now: now, Wait: func(_ context.Context, d time.Duration) bool { time.Sleep(d); return true },
		Call: func(_ context.Context, calls map[string][]scripts.Call) map[string][]change.Reply {
			all := map[string][]change.Reply{}
			for name, made := range calls {
				if w.masters[name] == nil { // its URL is not given
					continue
				}
				all[name] = []change.Reply{}
				for _, call := range made {
					r, err := w.masters[name].run(call)
					all[name] = append(all[name], change.Reply{Reply: r, Err: err, At: now()})
				}
				if last := len(made) - 1; last > 0 && w.masters[name].partly {
					all[name][last] = change.Reply{Err: errors.New("no reply"), At: now()}
				}
			}
			return all
		}}
}

// views looks at the masters of a list.
func (w *world) views(list *scripts.List) (views []*membership.View) {
	for _, name := range list.Names() {
		views = append(views, w.masters[name].look())
	}
	return views
}

// put gives a master a marker, as scenes have it.
func (w *world) put(name, text string) {
	w.t.Helper()
	m := w.masters[name]
	if m.away = text == "away"; text == "-" || m.away {
		return
	}
	marker := text
	if text != "text" {
		marker = w.parse(m.process(), text).String()
	}
	m.Set(scripts.MarkerKey, marker)
}

// counters are the token counters that counter sets.
func (w *world) counters() string {
	var all []string
	for _, name := range w.names {
		text, err := redis.String(w.masters[name].do("GET", scripts.CounterPrefix+"7"))
		if err != nil {
			text = "-"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func now() time.Duration { return time.Duration(time.Now().UnixNano()) }

func (w *world) parse(of scripts.Process, text string) scripts.Marker {
	lists, options, _ := strings.Cut(text, ",")
	lists, isOld := strings.CutPrefix(lists, "old:")
	lists, isClaim := strings.CutPrefix(lists, "?")
	lists, generation, _ := strings.Cut(lists, "#")
	members, next, _ := strings.Cut(lists, ">")
	m := scripts.Marker{Process: of, Claimed: isClaim, Members: listOf(members), Next: listOf(next), Generation: 1}
	if m.Members.Len() == 0 || isClaim {
		m.Generation = 0
	}
	if isOld {
		m.Run = "old"
	}
	if generation != "" {
		var err error
		m.Generation, err = strconv.ParseUint(generation, 10, 64)
		testkit.Must(w.t, err)
	}
	for option := range strings.SplitSeq(options, ",") {
		kind, value, isPair := strings.Cut(option, ":")
		switch {
		case option == "":
		case isPair && kind == "as":
			m.Member = value
		case isPair && kind == "max":
			m.MaxLease = duration(value)
		case isPair && kind == "run":
			m.Run = strings.Replace(value, "+", m.Run, 1)
		case option[0] == 'q':
			m.Admitted = now() + duration(option[1:])
		case option[0] == 'w':
			m.Change = now() + duration(option[1:])
		default:
			w.t.Fatalf("%s: what is %s?", text, option)
		}
	}
	return m
}

// state is the markers of all masters, as scenes have them.
func (w *world) state() string {
	var all []string
	for _, name := range w.names {
		all = append(all, w.brief(name))
	}
	return strings.Join(all, " ")
}

func (w *world) brief(name string) string {
	m := w.masters[name]
	v := m.look()
	switch {
	case v == nil:
		return "away"
	case v.Seen.Marker == "":
		return "-"
	case v.Marker().Run == "":
		return "text"
	}
	of, text := v.Marker(), ""
	if !v.IsMarked() {
		text = "old:"
	}
	if of.Claimed {
		text += "?"
	}
	if text += strings.Join(of.Members.Names(), ""); of.Members.Len() == 0 {
		text += "()"
	}
	if of.Next.Len() > 0 {
		text += ">" + strings.Join(of.Next.Names(), "")
	}
	if of.Generation > 0 {
		text += fmt.Sprint("#", of.Generation)
	}
	if of.Member != name {
		text += ",as:" + of.Member
	}
	if of.MaxLease != maxLease {
		text += fmt.Sprint(",max:", testkit.Short(of.MaxLease))
	}
	if left := of.Admitted - v.Now; left >= 0 || of.Members.Len() == 0 {
		text += ",q" + testkit.Short(left)
	}
	if left := of.Change - v.Now; left > 0 {
		text += ",w" + testkit.Short(left)
	}
	return text
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// listOf is the list of members with one letter each.
func listOf(letters string) *scripts.List {
	if letters = strings.Trim(letters, "()"); letters == "" {
		return scripts.NewList()
	}
	names := strings.Split(letters, "")
	if slices.ContainsFunc(names, func(name string) bool { return name < "a" || name > "z" }) {
		panic("no list: " + letters)
	}
	slices.Sort(names)
	return scripts.NewList(names...)
}
