package membership_test

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/membership/change"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestWipe(t *testing.T) {
	for _, c := range []struct {
		database     int
		name, prefix string
		want         string
	}{
		{0, "a", "", "DEL quorumlock:marker"},
		{3, "a", "", "DEL quorumlock:marker in database 3"},
		{12, "h:6379", "team", "DEL team:quorumlock:marker in database 12"},
		{0, "a", "team", "DEL team:quorumlock:marker"},
		{0, "/run/3/redis.sock", "", "DEL quorumlock:marker"},
		{0, "a/3b", "", "DEL quorumlock:marker"},
	} {
		name := scripts.MemberName(c.name, c.database, c.prefix)
		testkit.Equal(t, change.Wipe(name), c.want, name)
	}
	testkit.Equal(t, change.Wipe("a/3", "b/3", "c"), "DEL quorumlock:marker in database 3, DEL quorumlock:marker", "several")
}

// Whatever is wrong with a master that is to be wiped, the error says in which database.
func TestErrorsSayWhichDatabaseToWipe(t *testing.T) {
	list := scripts.NewList("a/3", "b/3", "c/3")
	more, less := change.With(list, "d/3"), change.Without(list, "c/3")
	announce := func(to *scripts.List) *change.Procedure {
		by, err := change.New(list, to)
		testkit.Must(t, err)
		return by.Announce()
	}
	for what, c := range map[string]struct {
		run  *change.Procedure
		on   string // one master
		is   func(m *scripts.Marker)
		want string
	}{
		"another member":      {announce(more), "d/3", func(m *scripts.Marker) { m.Member = "y/3" }, "add it by this name"},
		"in another list":     {announce(more), "d/3", func(m *scripts.Marker) { m.Members = more }, "before it joins"},
		"a forged generation": {announce(more), "b/3", func(m *scripts.Marker) { m.Generation = 1 << 52 }, "counts no changes"},
		"taken back":          {change.Abort(list), "a/3", func(m *scripts.Marker) { m.Members, m.Generation = less, 2 }, "taken back"},
	} {
		views := map[string]*membership.View{}
		for _, name := range more.Names() {
			of := scripts.Process{Run: "run/3", MaxLease: maxLease, Member: name}
			marker := scripts.Marker{Process: of, Generation: 1, Members: list, Next: scripts.NewList()}
			text := ""
			if name == c.on {
				c.is(&marker)
			}
			if name == c.on || list.Has(name) {
				text = marker.String()
			}
			views[name] = membership.Read(scripts.Seen{Marker: text, Now: 100 * maxLease, Process: of}, 0)
		}
		c.run.Looked(views)
		err := c.run.Next().Err
		testkit.Check(t, err != nil && strings.Contains(err.Error(), c.want) &&
			strings.Contains(err.Error(), "DEL quorumlock:marker in database 3"), "%s: %v", what, err)
	}
}
