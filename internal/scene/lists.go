package scene

import (
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// mastersOf are those in of=, or all.
func (p *play) mastersOf(l line) []int {
	if l.has("of") {
		return l.integers("of")
	}
	return p.allMasters()
}

func (p *play) allMasters() (all []int) {
	for i := range p.w.Masters {
		all = append(all, i)
	}
	return all
}

// marker gives masters a marker of their own processes, admitted long ago.
func (p *play) marker(l line) {
	for i := range l.words {
		master := l.number(i)
		info, err := redis.String(p.on(master, "INFO", "server"), nil)
		testkit.Must(p.t, err)
		_, run, _ := strings.Cut(info, "run_id:")
		run, _, _ = strings.Cut(run, "\r\n")
		m := scripts.Marker{Generation: 1, Members: l.list("members"), Next: l.list("next")}
		m.Run, m.Member, m.MaxLease = scripts.MarkerRun(run, 0), world.NodeName(master), node.DefaultMaxLease
		if l.has("max") {
			m.MaxLease = l.duration("max", 0)
		}
		p.w.Masters[master].Set(scripts.MarkerKey, m.String())
	}
}

// list is an option's masters.
func (l line) list(option string) *scripts.List {
	var names []string
	for _, master := range l.integers(option) {
		names = append(names, world.NodeName(master))
	}
	return scripts.NewList(names...)
}

// lists says which list each master has.
func (p *play) lists(line) {
	for i := range p.w.Masters {
		text, err := redis.String(p.on(i, "GET", scripts.MarkerKey), nil)
		if err != nil {
			p.say("", "%d: blank", i)
			continue
		}
		m, err := scripts.ParseMarker(text)
		testkit.Must(p.t, err)
		said := fmt.Sprintf("%d: %s, generation %d", i, m.Members, m.Generation)
		if m.Next.Len() > 0 {
			said += fmt.Sprintf(", next %s", m.Next)
		}
		if m.Claimed {
			said += ", claimed"
		}
		p.say("", "%s", said)
	}
}
