package scripts_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// sent is what a directive sends: one call, or several that share a run.
type sent struct {
	call   scripts.Call
	shared []scripts.Call
	by     scripts.ConnArgs
	forbid []string // of the user that sends it; "memory" is the server's
}

// The calls of a run are of these owners, with these seeds.
var (
	ownersOfRun = []string{"me", "third", "fourth"}
	seedsOfRun  = []string{"100", "200", "300"}
)

// call makes the directive's call. Its words are names, and options: token=7 depth=2. The owner is me, but for owner=.
// With prefix=, the state has whole keys.
// A user that may not run some commands sends it by without=, and without=memory has the server refuse to take up more.
func (v table) call() sent {
	v.t.Helper()
	var texts []string
	options := map[string][]string{}
	for _, arg := range v.args {
		if len(arg.Vals) == 0 {
			name := v.key(`"` + arg.Key + `"`)
			texts = append(texts, name)
			v.counter(name)
		} else {
			options[arg.Key] = arg.Vals
		}
	}
	names := testkit.Names(texts...)
	text := func(option, preset string) string {
		if values, ok := options[option]; ok {
			return values[0]
		}
		return preset
	}
	token := func(option string, preset int) uint64 {
		n, err := strconv.ParseInt(text(option, strconv.Itoa(preset)), 10, 64)
		testkit.Must(v.t, err)
		return uint64(n)
	}
	number := func(option string, preset int) int { return int(token(option, preset)) }
	lasts := func(option string, preset time.Duration) time.Duration {
		d, err := time.ParseDuration(text(option, preset.String()))
		testkit.Must(v.t, err)
		return d
	}
	owner := scripts.OwnerOf(ownerOf(text("owner", "me")))
	if text("as", "") == "reader" {
		owner = owner.AsReader()
	}
	grant := func(names []scripts.Name) scripts.AcquireArgs {
		a := scripts.AcquireArgs{Names: names, Owner: owner, Depth: number("depth", 1), Lease: scripts.ToMillis(lease), List: ours,
			Token: token("token", 0), Seed: token("seed", seed)}
		if former := text("after", ""); former != "" {
			owner := scripts.OwnerOf(ownerOf(former))
			a.Predecessor = &owner
		}
		if _, ok := options["reserve"]; ok {
			a.Reservation = scripts.ToMillis(lasts("reserve", 0))
		}
		return a
	}
	c := sent{forbid: options["without"]}
	switch v.script {
	case "acquire":
		c.call = scripts.Acquire(grant(names))
	case "read":
		owner = owner.AsReader()
		c.call = scripts.Read(grant(names))
	case "acquires", "releases":
		if seeds, ok := options["seeds"]; ok {
			options["seed"] = seeds
		} else {
			options["seed"] = seedsOfRun
		}
		for i := range names {
			owner = scripts.OwnerOf(ownerOf(ownersOfRun[i]))
			if v.script == "releases" {
				c.shared = append(c.shared, scripts.Release(names[i:i+1], owner, 0))
			} else {
				c.shared = append(c.shared, scripts.Acquire(grant(names[i:i+1])))
				options["seed"] = options["seed"][1:]
			}
		}
		c.call = c.shared[0]
	case "renew":
		c.call = scripts.Renew(ours, scripts.ToMillis(lasts("lease", lease)), v.renewals(owner))
	case "release":
		c.call = scripts.Release(names, owner, number("depth", 0))
	case "withdraw":
		c.call = scripts.Withdraw(names, owner)
	case "raise":
		c.call = scripts.Raise(names, owner, token("token", 0))
	case "inspect":
		c.call = operators.Inspect(names[0])
	case "force":
		var barred []scripts.Owner
		for _, word := range options["bars"] {
			barred = append(barred, scripts.OwnerOf(ownerOf(word)))
		}
		c.call = operators.Force(names[0], barred, token("readers", 0), maxLease)
	case "force-owner":
		c.call = operators.ForceOwner(names[0], owner, maxLease)
	case "look":
		c.call = scripts.Look()
	case "mark":
		c.call = v.mark(options, lasts("last", 200*365*24*time.Hour))
	case "slots":
		c.call = semaphores.Slots(texts[0], number("of", 1))
	case "who":
		c.call = scripts.Who(texts)
	case "introduce":
		var list *scripts.List
		if masters, ok := options["list"]; ok {
			list = letters(masters[0])
		}
		is := scripts.Identity{Host: read(text("host", "")), PID: number("pid", 0), Program: read(`"` + text("program", "") + `"`), Label: text("label", "")}
		c.call = scripts.Introduce(texts[0], is, list, 15*time.Second)
	case "lockers":
		c.call = operators.Lockers("0")
	case "survey":
		c.call = operators.Survey("0")
	case "lift":
		wanted := new(operators.Counters)
		for _, name := range texts {
			wanted[numberOf(name)] = token("token", 0)
		}
		c.call = wanted.Above(new(operators.Counters))[0]
	case "counters": // those that are read together with a name's
		c.call = operators.ReadCounters()[numberOf(texts[0])/1024]
	default:
		v.t.Fatalf("no call is named %s", v.script)
	}
	c.by = connArgs(c.call)
	c.by.Prefix = scripts.KeyPrefix(text("prefix", ""))
	if _, ok := options["tombstone"]; ok {
		c.by.Tombstone = lasts("tombstone", 0).Milliseconds()
	}
	return c
}

// numberOf is the number of a name's counter.
func numberOf(name string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(counterOf(name), scripts.CounterPrefix))
	return number
}

// renewals are the locks of a renewal, with their tokens: k=7 a+b=8 r=(9, rival).
func (v table) renewals(owner scripts.Owner) (batch []scripts.Renewal) {
	v.t.Helper()
	for _, arg := range v.args {
		if arg.Key == "as" || arg.Key == "without" || arg.Key == "lease" {
			continue
		}
		r := scripts.Renewal{Owner: owner}
		for _, name := range strings.Split(read(`"`+arg.Key+`"`), "+") {
			v.counter(name)
			r.Names = append(r.Names, scripts.NewName(name))
		}
		token, err := strconv.ParseUint(arg.Vals[0], 10, 64)
		testkit.Must(v.t, err)
		if r.Token = token; len(arg.Vals) == 2 {
			r.Owner = scripts.OwnerOf(ownerOf(arg.Vals[1]))
		}
		batch = append(batch, r)
	}
	return batch
}

// mark has read=ready if the marker that was seen is that, members and next, when the node grants and when the next change
// may come: (in, 30s) from now or (at, 5s) in 1970, and process= of another run.
func (v table) mark(options map[string][]string, last time.Duration) scripts.Call {
	v.t.Helper()
	list := func(option string, preset *scripts.List) *scripts.List {
		values, ok := options[option]
		if !ok {
			return preset
		}
		for i := range values {
			values[i] = read(`"` + values[i] + `"`)
		}
		return scripts.NewList(values...)
	}
	when := func(option string) scripts.When {
		values := options[option]
		if values == nil {
			return scripts.At(0)
		}
		d, err := time.ParseDuration(values[1])
		testkit.Must(v.t, err)
		if values[0] == "in" {
			return scripts.In(d)
		}
		return scripts.At(d)
	}
	seen := scripts.Seen{Process: process}
	if options["read"] != nil {
		seen.Marker = v.markerWith(nil)
	}
	if run := options["process"]; run != nil {
		seen.Process.Run = run[0]
	}
	m := scripts.Marker{Generation: 3, Members: list("members", ours), Next: list("next", none)}
	if options["next"] != nil {
		m.Generation = 4
	}
	return scripts.Mark(seen, m, when("grants"), when("change"), last)
}
