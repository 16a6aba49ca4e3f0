//go:build unix

package chaos

import (
	"bytes"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/scripts"
)

// rivals are two operators who change the members by the command, and each undoes what the other
// does. If all masters are members, one removes the last but one, the other the last; if one is
// missing, either adds it. Each commits or aborts whatever is announced. Half of the commands are
// killed: when a master has changed, or at any moment.
type rivals struct {
	*run
	lists [][]int // all masters, all without the last but one, and without the last
	busy  []bool  // masters with a fault
	two   [2]*rival

	announced, committed, aborted, refused, killed, halfway, wiped int
}

// rival is one of them. It runs one command at a time.
type rival struct {
	own   int // the place of the master that it removes
	way   *paths
	runs  *members  // its command; nil for none
	dies  time.Time // when the command is killed; zero for never
	saw   string    // the masters' markers when it began
	rests time.Time // no command before
}

// rivalsWith makes them. Nobody asks a busy master where the change stands.
func (r *run) rivalsWith(busy []bool) *rivals {
	n := r.n
	o := &rivals{run: r, busy: busy, lists: [][]int{placesTo(n + 1), append(placesTo(n-1), n), placesTo(n)}}
	for k, group := range []string{"one operator", "the other operator"} {
		o.two[k] = &rival{own: n - 1 + k, way: r.apartFor(group)}
	}
	return o
}

func (o *rivals) work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); o.let(3 * time.Millisecond) {
		for _, one := range o.two {
			if o.ours() {
				o.turn(one, time.Now())
			}
		}
	}
}

func (o *rivals) turn(one *rival, now time.Time) {
	m := one.runs
	switch {
	case m == nil:
		if now.After(one.rests) {
			o.begin(one)
		}
		return
	case !m.hasEnded():
		if !one.dies.IsZero() && one.saw != "" && o.markers() != one.saw {
			one.dies, one.saw = now, ""
		}
		if !one.dies.IsZero() && now.After(one.dies) {
			o.happened("quorumlock members killed", "at %s", m.verb)
			one.end()
			o.killed++
			if o.isHalfway() {
				o.halfway++
			}
		}
		return
	case m.err != nil:
		o.refused++
	case m.verb == "commit":
		o.committed++
	case m.verb == "abort":
		o.aborted++
	default:
		o.announced++
	}
	o.Notes.Log("members %s of %s: %s", m.verb, one.way.group, bytes.TrimSpace(bytes.SplitN(m.said.Bytes(), []byte("\n"), 2)[0]))
	one.runs, one.rests = nil, now.Add(o.below(200*time.Millisecond))
}

// begin starts the command that a look at one master suggests, or another one.
func (o *rivals) begin(one *rival) {
	from, next := o.lists[o.rng.IntN(len(o.lists))], []int(nil)
	if m, ok := o.markerOf(o.rng.IntN(len(o.Servers))); ok && m.Members.Len() > 0 {
		from, next = o.placesOf(m.Members), o.placesOf(m.Next)
	}
	dice := o.rng.IntN(10)
	switch {
	case len(next) > 0 && dice < 6, len(next) == 0 && dice < 2:
		given := from
		if len(next) > 0 {
			given = next
		}
		if len(next) < len(from) && o.rng.IntN(2) == 0 {
			given = from // with the removed master
		}
		one.runs = o.members("commit", nodeTimeout, one.way.urls(given...)...)
	case dice < 8 && len(next) > 0, dice == 2:
		one.runs = o.members("abort", nodeTimeout, one.way.urls()...)
	case len(from) == len(o.Servers):
		one.runs = o.members("remove", nodeTimeout, append([]string{o.Names[one.own]}, one.way.urls(from...)...)...)
	default:
		missing := slices.IndexFunc(o.lists[0], func(i int) bool { return !slices.Contains(from, i) })
		one.runs = o.members("add", nodeTimeout, append(one.way.urls(missing), one.way.urls(from...)...)...)
	}
	if one.dies = (time.Time{}); o.rng.IntN(2) == 0 {
		one.dies, one.saw = time.Now().Add(o.below(time.Second)), o.markers()
	}
}

// end kills the command that runs, if one does.
func (one *rival) end() {
	if one.runs != nil {
		one.runs.kill()
		one.runs = nil
	}
}

func (o *rivals) end() {
	for _, one := range o.two {
		one.end()
	}
}

// markerOf returns the marker of a master that has no fault.
func (o *rivals) markerOf(i int) (m scripts.Marker, ok bool) {
	if o.busy[i] {
		return m, false
	}
	text, err := redis.String(o.Servers[i].Do("GET", scripts.MarkerKey))
	if err == nil {
		m, err = scripts.ParseMarker(text)
	}
	return m, err == nil
}

func (o *rivals) placesOf(list *scripts.List) (places []int) {
	for i := range o.Servers {
		if list.Has(o.Names[i]) {
			places = append(places, i)
		}
	}
	return places
}

// inAll are the markers of the masters that are in all lists.
func (o *rivals) inAll() (all []scripts.Marker) {
	for i := range o.n - 1 {
		if m, ok := o.markerOf(i); ok {
			all = append(all, m)
		}
	}
	return all
}

func (o *rivals) markers() (texts string) {
	for _, m := range o.inAll() {
		texts += m.String()
	}
	return texts
}

// isHalfway reports whether the masters that are in all lists differ.
func (o *rivals) isHalfway() bool {
	seen := o.inAll()
	return slices.ContainsFunc(seen, func(m scripts.Marker) bool {
		return !m.Members.Equal(seen[0].Members) || !m.Next.Equal(seen[0].Next)
	})
}

// settle lets one operator go on alone, as the commands and their messages advise. It
// returns the place in lists of the members in the end.
func (o *rivals) settle() int {
	o.end()
	tried := ""
	does := func(verb string, places []int) bool {
		m := o.members(verb, nodeTimeout, o.two[0].way.urls(places...)...)
		<-m.ended
		tried = m.said.String()
		return m.err == nil
	}
	for late, vain := time.Now().Add(3*soon), 0; ; o.let(100 * time.Millisecond) {
		if at := slices.IndexFunc(o.lists, o.stands); at >= 0 {
			return at
		}
		o.need(time.Now().Before(late), "one operator alone goes on: %s", tried)
		if slices.ContainsFunc(o.lists, func(list []int) bool { return does("commit", list) }) || does("abort", nil) {
			vain = 0
		}
		if vain++; vain > 5 {
			o.wipe()
		}
	}
}

// stands reports whether the list's masters all have it, and no next one.
func (o *rivals) stands(list []int) bool {
	for _, i := range list {
		m, ok := o.markerOf(i)
		if !ok || m.Claimed || m.Next.Len() > 0 || !slices.Equal(o.placesOf(m.Members), list) {
			return false
		}
	}
	return true
}

// wipe wipes the masters whose change was taken back on the others while they were away.
func (o *rivals) wipe() {
	for _, list := range o.lists {
		var others []int
		for _, i := range list {
			if m, ok := o.markerOf(i); ok && !slices.Equal(o.placesOf(m.Members), list) {
				others = append(others, i)
			}
		}
		if len(others) > (len(list)-1)/2 {
			continue
		}
		for _, i := range others {
			o.happened("list wiped", "on %s, as the command says", o.Names[i])
			o.must(o.do(i, "DEL", scripts.MarkerKey))
			o.wiped++
		}
		return
	}
}

// fought reports whether all has happened that the operators are here for.
func (o *rivals) fought() bool {
	return !o.ours() || o.announced > 0 && o.committed > 0 && o.refused > 0 && o.killed > 0
}

func (o *rivals) tell() {
	if o.ours() {
		o.expect(o.fought(), "the operators announce, commit, are refused, and are killed")
		o.note("of the operators' commands %d announced, %d committed, %d took back, %d were refused, and %d were killed, %d of them "+
			"with the masters left different", o.announced, o.committed, o.aborted, o.refused, o.killed, o.halfway)
	}
}

func againstEachOther(r *run) {
	o := r.rivalsWith(make([]bool, r.n+1))
	defer o.end()
	for i := range o.two {
		o.two[i].way.relays()[1].DelayRequests(markDelay, 0) // so that most are killed half-way
	}
	ways := []*paths{r.apartFor("clients without the last but one"), r.apartFor("clients without the last")}
	for i := range r.n - 1 {
		ways[i/(r.n/2)].Partition(i)
	}
	plan := contender.Plan{Hold: 300 * time.Millisecond, Rest: 100 * time.Millisecond, Patience: r.lease / 2}
	var crowds [3][]*worker
	for k, list := range o.lists {
		plan.URLs = r.urls(list...)
		crowds[k] = r.crowd(1, plan)
		if k > 0 {
			plan.URLs = ways[k-1].urls(list...)
			crowds[k] = append(crowds[k], r.crowd(1, plan)...)
		}
	}
	r.acquires(time.Now(), soon, crowds[0]...)
	accepts := func() {
		if r.kind == noRefusal {
			(&operator{run: r}).overwrite(o.lists[1], o.lists[2])
		}
	}
	accepts()
	rounds := 4 // for a control
	if r.ours() {
		rounds = 6
	}
	for k := 0; k < rounds || !o.fought() && k < 2*rounds; k++ {
		victim, missed := r.rng.IntN(r.n+1), r.rng.IntN(r.n+1)
		r.Kill(victim)
		o.busy[victim] = true
		o.work(o.below(r.lease / 2))
		r.Restart(victim)
		o.busy[victim] = false
		accepts()
		way := o.two[r.rng.IntN(2)].way
		if k%2 == 0 {
			way.Partition(missed)
		}
		o.work(2*r.lease + o.below(r.lease))
		if k%2 == 0 {
			way.Heal(missed)
			if missed == 1 {
				way.relays()[1].DelayRequests(markDelay, 0)
			}
		}
	}
	o.tell()
	if !r.ours() {
		return
	}
	healAll(ways...)
	r.available(time.Now(), r.lease+5*slack, "the operators agreed", crowds[o.settle()]...)
}

func rivalWalk(r *run) {
	w := &walker{run: r, busy: make([]bool, r.n+1)}
	w.rivals = r.rivalsWith(w.busy)
	defer w.rivals.end()
	w.lists = w.rivals.lists
	w.walk()
}
