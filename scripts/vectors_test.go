package scripts_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

// The vectors are tables in testdata. A directive is a call; each row has a name and the state that the call finds.
// The result has the reply to each row, and what the call changed: keys, in the words of a state, and what it published.
// What it does not name is as before.
//
//	acquire k
//	fresh: ready
//	held: ready; lock k rival 5s
//	----
//	fresh: granted 100; counter k 100; lock k me 10s
//	held: held by rival for 5s
//
// Each call is sent twice, as a client may resend it. What differs the second time follows "again".
// A row whose call has other words than the directive has them at its end: fresh: ready > k depth=3.
// vectors_state_test.go has the words of a state, vectors_call_test.go those of a call.
//
// To add a row, write its state, let redis-server tell its result, and read that:
//
//	go test -run TestVectorsOnRedis ./scripts -rewrite

func TestVectorsOnRedis(t *testing.T) {
	runVectors(t, startReal(t), "testdata/*.txt", "testdata/real/*.txt")
}

// The server of the simulations must reply like a real one. It does not know what is in testdata/real.
func TestVectorsOnFake(t *testing.T) {
	master := fakeredis.New(time.Now, 1)
	t.Cleanup(master.Stop)
	runVectors(t, newPiped(t, master), "testdata/*.txt")
}

func runVectors(t *testing.T, s server, patterns ...string) {
	var files []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		testkit.Check(t, err == nil && len(found) > 0, "%s has no tables (%v)", pattern, err)
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				var results strings.Builder
				for row := range strings.Lines(d.Input) {
					name, state, ok := strings.Cut(strings.TrimSuffix(row, "\n")+" ", ": ")
					testkit.Require(t, ok, "a row without a colon: %s", row)
					state, words, _ := strings.Cut(" "+state, " > ")
					v := tableOf(t, s)
					v.script, v.args = d.Cmd, d.CmdArgs
					if words != "" {
						_, args, err := datadriven.ParseLine(d.Cmd + " " + words)
						testkit.Must(t, err)
						v.args = args
					}
					result, slow := v.run(state)
					for tries := 1; slow && tries < 20; tries++ {
						result, slow = v.run(state)
					}
					fmt.Fprintf(&results, "%s: %s\n", name, result)
				}
				return results.String()
			})
		})
	}
}

// table runs one row of a table.
type table struct {
	t      *testing.T
	s      server
	script string
	args   []datadriven.CmdArg // of the row's call
	names  map[string]string   // of the row, by the key of their counter
}

// run reports whether it was slow: then the machine stood still, and times to live fell meanwhile.
func (v table) run(state string) (result string, slow bool) {
	v.t.Helper()
	begun := time.Now().Round(0) // by the clock that the server reads, which may be set
	testkit.Do(v.t, v.s, "FLUSHALL")
	call := v.call()
	v.prepare(state)
	before := v.snapshot()
	reply, told := v.send(call)
	after := v.snapshot()
	all := slices.Concat([]string{reply}, v.changes(before, after, true), told)
	again, told := v.send(call)
	more := append(v.changes(after, v.snapshot(), false), told...)
	if again != reply || len(more) > 0 {
		all = append(all, "again: "+again)
		all = append(all, more...)
	}
	return strings.Join(all, "; "), time.Since(begun) > time.Second
}

// send returns the reply, and what was published.
func (v table) send(c sent) (reply string, told []string) {
	v.t.Helper()
	name, args := c.call.Command(nil, true, c.by)
	if c.shared != nil {
		name, args = scripts.RunCommand(nil, c.shared, true, c.by)
	}
	var raw any
	var err error
	heard, listenErr := v.s.Listen(func() {
		switch {
		case c.forbid == nil:
			raw, err = v.s.Do(whole(name, args)...)
		case c.forbid[0] == "memory":
			testkit.Do(v.t, v.s, "CONFIG", "SET", "maxmemory", "1")
			raw, err = v.s.Do(whole(name, args)...)
			testkit.Do(v.t, v.s, "CONFIG", "SET", "maxmemory", "0")
		default:
			raw, err = userWithout(v.t, v.s.(listener), c.forbid...).Do(name, args...)
		}
	})
	testkit.Must(v.t, listenErr)
	for _, m := range heard {
		channel := strings.TrimPrefix(m.channel, scripts.ChannelPrefix)
		told = append(told, "tells "+quoted(channel)+strings.TrimPrefix(" "+quoted(m.payload), " 0"))
	}
	return v.shown(c, raw, err), told
}

// tableOf is for tests that compare states.
func tableOf(t *testing.T, s server) table { return table{t: t, s: s, names: map[string]string{}} }

// changes has what differs between two states: to the millisecond of a reader's lease, if they are compared exactly.
func (v table) changes(before, after map[string]entry, exactly bool) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			list = append(list, "DEL "+v.short(key))
		}
	}
	var written []string
	for key, is := range after {
		if was := before[key]; is.shown != was.shown || exactly && is.exact != was.exact {
			written = append(written, is.shown)
		}
	}
	slices.Sort(written)
	return append(list, written...)
}
