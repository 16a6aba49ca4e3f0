package membership_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorumlock/quorumlock/internal/testkit"
	inmemory "github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	inmemory.OneProcessor()
	testkit.Main(m)
}

// TestScenes plays the scenes of testdata: the rules, with no Locker (quorum/testdata has those). Below "----" stands what
// comes of them. A scene is "play" and a verb on each line; or one verb, and on each line other masters that it plays on,
// "what is special: MARKER...".
//
//	masters MARKER...          new masters: a, b, c and so on
//	announce FROM TO           members add or remove, with wait=30s for the last change
//	commit LIST, abort LIST    the same commands; pending LIST, admit a with list=LIST
//	begin P VERB... until=b    a command up to its step read, raise, wait, or the mark of b; finish P goes on, with
//	                           each=15s or bump=a before each mark, and crash P ends it
//	mark LIST                  a client marks what it may, plan by plan, with found=no, quarantine=10s
//	look A LIST, plan A        a client that looks, and then writes a plan, or with mark A all
//	ready LIST                 when a majority grants to a client, with found=no, exists=yes, quarantine=10s
//	relation a LIST, view a    what one look says
//	pass 30s                   time
//	flush a, stop a, restart a what befalls masters; markers says what all show
//	counter a 7, counters      a token counter, and those of all masters
//	partly a b                 of several calls at once the last gets no reply
//
// A list is its members' letters. A marker is as in package quorum/model/membership: - for none, abc, abc#2 (its
// generation), abc>abcd while a change is announced, ?abc for a claim, old:abc of an earlier process, () admitted by an
// operator, text for no marker, away for a master that does not answer; and after commas q30s and w30s, what is left
// of its quarantine and of the wait for the next change, as:x (the member), max:1s and run:x.
//
// A new behaviour is a new scene: -rewrite writes what it says, and a text that changes has its reason in the commit.
func TestScenes(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t}
			t.Cleanup(func() { w.end() })
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				var said strings.Builder
				for line := range strings.Lines(d.Input) {
					step := *d
					line = strings.TrimSpace(line)
					if d.Cmd == "play" {
						var err error
						step.Cmd, step.CmdArgs, err = datadriven.ParseLine(line)
						testkit.Must(t, err)
					} else {
						what, masters, _ := strings.Cut(line, ": ")
						w.next(strings.Fields(masters))
						line = what
					}
					if out := w.play(&step); out != "" {
						fmt.Fprintf(&said, "%s: %s\n", line, out)
					}
				}
				return said.String()
			})
		})
	})
}

// play plays one verb.
func (w *world) play(d *datadriven.TestData) string {
	args, opts := []string{}, map[string]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			args = append(args, a.Key)
		} else {
			opts[a.Key] = strings.Join(a.Vals, ",")
		}
	}
	arg := func(i int) string {
		if i >= len(args) {
			d.Fatalf(w.t, "%s needs more arguments", d.Cmd)
		}
		return args[i]
	}
	switch d.Cmd {
	case "masters":
		w.next(args)
		return ""
	case "counter":
		w.masters[arg(0)].Set(scripts.CounterPrefix+"7", arg(1))
		return ""
	case "counters":
		return w.counters()
	case "markers":
		return w.state()
	case "pass":
		time.Sleep(duration(arg(0)))
		return ""
	case "stop", "flush", "restart":
		for _, name := range args {
			w.befalls(d.Cmd, name)
		}
		return ""
	case "partly":
		for _, name := range args {
			w.masters[name].partly = true
		}
		return ""
	case "announce", "commit", "abort":
		return w.begin(d.Cmd, args, opts).goOn(opts)
	case "begin":
		w.runs[arg(0)] = w.begin(arg(1), args[2:], opts)
		return w.runs[arg(0)].goOn(opts)
	case "crash":
		return w.runs[arg(0)].crash()
	case "finish":
		return w.runs[arg(0)].goOn(opts)
	case "pending":
		return w.pending(arg(0))
	case "admit":
		return w.admit(arg(0), opts)
	case "look":
		w.clients[arg(0)] = w.newClient(arg(1), opts)
		return ""
	case "plan":
		c := w.clients[arg(0)]
		return strings.Join(w.write(c, c.Plan(c.views)), " ")
	case "mark":
		if c := w.clients[arg(0)]; c != nil {
			return w.mark(c)
		}
		return w.mark(w.newClient(arg(0), opts))
	case "ready":
		return w.newClient(arg(0), opts).ready()
	case "relation":
		return relation(w.masters[arg(0)].look(), listOf(arg(1)))
	case "view":
		return says(w.masters[arg(0)].look())
	}
	d.Fatalf(w.t, "no verb is called %s", d.Cmd)
	return ""
}
