package scripts_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

var threeLocks = []scripts.Renewal{renewal(1, "a"), renewal(2, "b", "c"), renewal(3, "d")}

// parsers are all parsers. Each returns a [scripts.Reply], or a []any of the replies to the calls of a run. For a reply
// that no script of ours sends, they return an error that wraps ErrReply.
var parsers = func() map[string]func(any) (any, error) {
	fourReleases := slices.Repeat([]scripts.Call{scripts.Release(testkit.Names("k"), scripts.OwnerOf(me), 0)}, 4)
	all := map[string]func(any) (any, error){
		"acquires": parseRun(acquire(), acquire(), acquire(), acquire()),
		"releases": parseRun(fourReleases...),
	}
	k, owner := scripts.NewName("k"), scripts.OwnerOf(me)
	for _, call := range []scripts.Call{
		acquire(), scripts.Renew(ours, scripts.ToMillis(lease), threeLocks),
		scripts.Release(testkit.Names("a", "b", "c"), owner, 0), scripts.Raise(testkit.Names("k"), owner, 1),
		operators.Force(k, nil, 0, maxLease), operators.Inspect(k), scripts.Look(), operators.Survey("0"), operators.Lockers("0"),
		scripts.Mark(scripts.Seen{}, scripts.Marker{Members: ours, Next: none}, scripts.At(0), scripts.At(0), 0),
		scripts.Leave("L"), semaphores.Slots("k", 2), scripts.Who([]string{"K", "L"}),
		operators.ReadCounters()[0], (&operators.Counters{1}).Above(new(operators.Counters))[0],
	} {
		all[call.Op()] = func(v any) (any, error) { return call.Parse(v) }
	}
	return all
}()

// parseRun returns the replies to the calls, nil for one that must be sent alone, or the first error.
func parseRun(calls ...scripts.Call) func(any) (any, error) {
	return func(reply any) (any, error) {
		run, err := calls[0].ParseRun(reply, len(calls))
		if err != nil {
			return nil, err
		}
		each := make([]any, len(calls))
		for i, call := range calls {
			r, isAlone, err := run.Of(i, call)
			if err != nil {
				return nil, err
			}
			if !isAlone {
				each[i] = r
			}
		}
		return each, nil
	}
}

func granted(token uint64) scripts.Reply {
	return scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Granted, Token: token}}
}

// held is the refusal for the sake of the rival: of a writer, or of that many readers.
func held(wait time.Duration, readers int) scripts.Reply {
	return scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: wait, Holder: rival, Readers: readers}}
}

// reserved is the refusal of a reader that a writer keeps back.
func reserved(wait time.Duration) scripts.Reply {
	return scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: wait}}
}

func bulk(s string) []byte { return []byte(s) }

func pair(word string, number any) []any { return []any{bulk(word), number} }

func waited(ttl, waiting any) []any { return []any{bulk("held"), ttl, waiting, bulk(rival)} }

func keptBack(ttl, waiting any) []any { return []any{bulk("reserved"), ttl, waiting} }

// looked returns a valid reply to look with one field changed.
func looked(field int, value any) []any {
	fields := []any{bulk("a marker"), int64(1), bulk(process.String())}
	fields[field] = value
	return fields
}

// refused returns a refusal by the marker with one field changed.
func refused(field int, value any) []any {
	fields := []any{bulk("marker"), bulk("a marker"), bulk(process.Expected(ours))}
	fields[field] = value
	return fields
}

// inspected returns a valid reply to inspect with one field changed.
func inspected(field int, value any) []any {
	fields := []any{bulk(me), bulk("1"), int64(5000), bulk("7"), bulk("a marker"), int64(1), int64(0), int64(0)}
	fields[field] = value
	return fields
}

// run returns the reply to a run of four calls, with that one to the first.
func run(first any) []any { return []any{first, int64(0), int64(0), int64(0)} }

const tooLong = math.MaxInt64 / 1_000_000 // milliseconds; a time.Duration holds less

func TestMalformedReplies(t *testing.T) {
	anywhere := []any{
		nil, true, 1, int32(1), uint64(1), 1.5, "OK", "1", bulk("1"), bulk(""), bulk("OK"), bulk("granted"), errors.New("ERR"),
		[]any{}, []any{nil}, []any{nil, nil}, []any{int64(1), int64(1), int64(1)}, []any{bulk("granted"), int64(1)}, []any{[]any{}, []any{}},
		[]int64{1, 2}, []string{"held", "1"}, map[string]any{}, struct{}{}, int64(-1), int64(math.MinInt64), int64(math.MaxInt64),
	}
	more := map[string][]any{
		"acquire": {int64(0), int64(1 << 52), int64(1 << 53), waited(int64(-2), int64(0)), waited(int64(math.MinInt64), int64(0)),
			waited(bulk("5"), int64(0)), waited(nil, int64(0)), waited(int64(5), int64(-1)),
			append(waited(int64(5), int64(0)), int64(0)), append(waited(int64(5), int64(0)), int64(-1)), append(waited(int64(5), int64(0)), bulk("1")),
			append(waited(int64(5), int64(0)), int64(1), int64(1)), append(waited(int64(5), int64(0)), int64(math.MaxInt64)),
			waited(int64(5), int64(math.MaxInt64)), waited(int64(5), nil), waited(int64(5), bulk("1")), pair("held", int64(5)),
			pair("quarantined", int64(-1)), pair("stale", int64(0)),
			refused(0, bulk("Marker")), refused(1, nil), refused(1, int64(1)), refused(2, nil), refused(2, bulk("0 x\n")), refused(2, bulk("")),
			refused(2, bulk("0 x -1 a 1\n")), refused(2, bulk("0 x 1 %zz 1\n")), pair("released", int64(-1)),
			pair("HELD", int64(1)), pair("held ", int64(1)), pair("", int64(1)), []any{bulk("held")}, []any{bulk("held"), int64(1), int64(1), int64(1)},
			[]any{bulk("held"), int64(1), int64(1)}, []any{bulk("held"), int64(1), int64(1), bulk(strings.Repeat("x", 1025))},
			keptBack(int64(-2), int64(1)), keptBack(bulk("5"), int64(1)), keptBack(int64(5), bulk("1")),
			keptBack(int64(5), int64(-1)), keptBack(int64(5), int64(math.MaxInt64)), append(keptBack(int64(5), int64(1)), bulk(rival)), pair("reserved", int64(5)),
			[]any{"held", int64(1)}, []any{int64(5)}, []any{nil, int64(5)}},
		"renew": {refused(1, bulk("x")), append(refused(0, bulk("x")), bulk("NNNN")), append(refused(1, nil), bulk("NNNN")),
			append(refused(2, bulk("0 x -1 a 1\n")), bulk("NNNN")), bulk("NRRR"), bulk("RR"), bulk("RRRRR"), bulk("RRRr"),
			bulk("RRR\x00"), bulk("RRR "), "RRRR", []any{bulk("RRRR")}, int64(4),
			[]any{bulk("R"), bulk("R"), bulk("R"), bulk("R")}},
		"release": {int64(4), int64(math.MaxInt64), []any{int64(4), int64(1)}, []any{int64(0), int64(1)}, []any{int64(1), int64(0)},
			[]any{int64(1), int64(-2)}, []any{int64(1), int64(0)}, []any{int64(1), int64(math.MaxInt64)}, []any{int64(1), bulk("1")}, []any{int64(1)}},
		"acquires": {run(int64(5)), run(bulk("x")), run(bulk("")), run(bulk("0")), run(bulk("9007199254740992")),
			run(pair("released", int64(0))), run(pair("passed", int64(0)))},
		"releases": {int64(0), run(bulk("5")), run(bulk(""))},
		"slots":    {[]any{bulk("00"), int64(5), int64(0), int64(1)}, []any{bulk("0"), int64(5), int64(0)}, []any{bulk("02"), int64(5), int64(0)}},
		"survey": {[]any{bulk("0"), []any{int64(1)}, []any{}}, []any{bulk("0"), []any{}, []any{bulk(scripts.Channel("k")), bulk("1")}},
			[]any{bulk("0"), []any{}, []any{bulk("others"), int64(1)}},
			[]any{bulk("0"), []any{}, []any{bulk("others"), int64(1), bulk(scripts.Channel("k")), int64(1)}}},
		"lockers": {[]any{bulk("0"), []any{bulk("K"), bulk("x"), int64(1)}},
			[]any{bulk("0"), []any{bulk("K"), bulk("x"), int64(1), bulk(lockerKey + "K"), bulk("x"), int64(1)}}},
		"counters": {slices.Repeat([]any{int64(1), bulk("7")}, 1025)},
		"raise":    {int64(-1), int64(1 << 52), int64(1 << 53), []any{int64(1)}},
		"force":    {int64(2), []any{int64(1)}},
		"inspect": {int64(1), inspected(0, nil), inspected(0, int64(1)), inspected(1, bulk("one")), inspected(1, bulk("-1")),
			inspected(1, bulk("9007199254740992")), inspected(1, int64(1)), inspected(2, int64(-2)),
			inspected(2, bulk("5")), inspected(3, bulk("-7")), inspected(3, bulk("1e3")), inspected(3, bulk("18446744073709551616")),
			inspected(3, nil), inspected(4, nil), inspected(5, int64(-1)), inspected(5, int64(math.MaxInt64)), inspected(5, nil),
			inspected(6, int64(-1)), inspected(6, nil), inspected(7, int64(-1)), inspected(7, int64(tooLong)), inspected(7, bulk("5")),
			inspected(0, bulk(me))[:5], inspected(0, bulk(me))[:6], append(inspected(0, bulk(me)), nil)},
		"look": {looked(0, nil), looked(0, int64(1)), looked(1, bulk("1")), looked(1, int64(-1)), looked(1, int64(tooLong)), looked(2, bulk("x")),
			looked(2, bulk("run x a")), looked(2, bulk("run 1 a b")), looked(0, bulk(""))[:2]},
		"mark": {[]any{int64(2), bulk("a marker"), int64(1)}, []any{int64(-1), bulk("a marker"), int64(1)}, []any{int64(1), nil, int64(1)},
			[]any{int64(1), bulk("a marker"), int64(-1)}, []any{int64(1), bulk("a marker")}, []any{bulk("1"), bulk("a marker"), int64(1)}},
	}
	for script, parse := range parsers {
		for _, v := range append(more[script], anywhere...) {
			if script == "counters" && reflect.DeepEqual(v, []any{}) { // there are none
				continue
			}
			got, err := parse(v)
			testkit.Check(t, errors.Is(err, scripts.ErrReply),
				"%s: %T %.60q is %+v (%v), want ErrReply", script, v, fmt.Sprint(v), got, err)
			reply, ok := got.(scripts.Reply)
			testkit.Check(t, !ok || reflect.DeepEqual(reply, scripts.Reply{}), "%s: %T %.60q comes with %+v and an error", script, v, fmt.Sprint(v), got)
			testkit.Check(t, len(fmt.Sprint(err)) <= 300, "%s: an error of %d bytes", script, len(fmt.Sprint(err)))
		}
	}
}

func TestReplies(t *testing.T) {
	for _, test := range []struct {
		script string
		reply  any
		want   scripts.Reply
	}{
		{"acquire", int64(1), granted(seed)}, // of usual.lua
		{"acquire", int64(1<<52 - 1), granted(1<<52 - 1)},
		{"acquire", waited(int64(0), int64(0)), held(0, 0)},
		{"acquire", waited(int64(1500), int64(0)), held(1500*time.Millisecond, 0)},
		{"acquire", waited(int64(-1), int64(0)), held(-1, 0)},
		// EXPIRE takes more than 292 years, of another program's key.
		{"acquire", waited(int64(tooLong-1), int64(0)), held((tooLong-1)*time.Millisecond, 0)},
		{"acquire", waited(int64(tooLong), int64(0)), held(-1, 0)},
		{"acquire", waited(int64(math.MaxInt64), int64(0)), held(-1, 0)},
		{"acquire", append(waited(int64(1500), int64(0)), int64(10_000)), held(1500*time.Millisecond, 10_000)},
		{"acquire", waited(int64(5), int64(8)),
			scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.HeldByAnother, Wait: 5 * time.Millisecond, Waiting: 8, Holder: rival}}},
		{"acquire", keptBack(int64(1500), int64(0)), reserved(1500 * time.Millisecond)},
		{"acquire", keptBack(int64(-1), int64(0)), reserved(-1)},
		{"acquire", refused(1, bulk("")),
			scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.NotAccepted}, NotAccepted: &scripts.Seen{Process: process}}},
		{"acquire", refused(2, bulk("0 run 1000 HOST:01 x\n")), scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.NotAccepted},
			NotAccepted: &scripts.Seen{Process: scripts.Process{Run: "run", MaxLease: time.Second, Member: "host:1"}, Marker: "a marker"}}},
		{"renew", bulk("RRRR"), scripts.Reply{Renew: []scripts.Renewed{scripts.Kept, scripts.Kept, scripts.Kept}}},
		{"renew", bulk("GRGT"), scripts.Reply{Renew: []scripts.Renewed{scripts.Gone, scripts.Gone, scripts.Taken}}},
		{"renew", bulk("TTGR"), scripts.Reply{Renew: []scripts.Renewed{scripts.Taken, scripts.Taken, scripts.Kept}}},
		{"renew", bulk("RFGF"), scripts.Reply{Renew: []scripts.Renewed{scripts.Kept, scripts.Gone, scripts.NotRaised}}},
		{"renew", bulk("RGTG"), scripts.Reply{Renew: []scripts.Renewed{scripts.Kept, scripts.Taken, scripts.Gone}}},
		{"renew", append(refused(1, bulk("x")), bulk("NGNN")), scripts.Reply{
			Renew:       []scripts.Renewed{scripts.NotRenewed, scripts.Gone, scripts.NotRenewed},
			NotAccepted: &scripts.Seen{Process: process, Marker: "x"}}},
		{"release", int64(3), scripts.Reply{Release: scripts.ReleaseReply{Found: 3}}},
		{"release", []any{int64(3), int64(8)}, scripts.Reply{Release: scripts.ReleaseReply{Found: 3, Heard: 8}}},
		{"release", []any{int64(3), int64(-1)}, scripts.Reply{Release: scripts.ReleaseReply{Found: 3, Heard: -1}}},
		{"raise", int64(0), scripts.Reply{}},
		{"raise", int64(1800000000000002), scripts.Reply{Raise: 1800000000000002}},
		{"force", int64(0), scripts.Reply{Other: false}},
		{"inspect", []any{bulk(""), bulk(""), int64(0), bulk(""), bulk(""), int64(0), int64(0), int64(0)}, scripts.Reply{Other: &operators.InspectReply{}}},
		{"survey", []any{bulk("0"), []any{}, []any{bulk(scripts.Channel("k")), int64(3), bulk(scripts.Channel("{a{b}")), int64(2),
			bulk(scripts.Channel("{k")), int64(-1), bulk(scripts.ChannelPrefix + "k}"), int64(1)}},
			scripts.Reply{Other: &operators.SurveyReply{Cursor: "0", Waiting: map[string]int{"k": 3, "{a{b}": 2, "{k": 0, "k}": 1}}}},
		{"look", looked(0, bulk("x")), scripts.Reply{Look: &scripts.Seen{Marker: "x", Now: time.Millisecond, Process: process}}},
		{"mark", []any{int64(1), bulk("x"), int64(5)}, scripts.Reply{Mark: &scripts.MarkReply{Written: true, Marker: "x", Now: 5 * time.Millisecond}}},
	} {
		got, err := parsers[test.script](test.reply)
		testkit.Check(t, err == nil && reflect.DeepEqual(got, test.want),
			"%s: %q is %+v (%v), want %+v", test.script, test.reply, got, err, test.want)
	}
}

// What a reply says of the node's marker: how long it grants nothing, and which marker it shows.
func TestWhatRepliesShowOfMarkers(t *testing.T) {
	const now = 1000 * time.Hour
	m := scripts.Marker{Process: process, Admitted: now + 20*time.Second, Members: ours, Next: none}
	seen := &scripts.Seen{Process: process, Marker: m.String(), Now: now}
	ofAnother := &scripts.Seen{Process: scripts.Process{Run: "another"}, Marker: m.String(), Now: now}
	noMarker := &scripts.Seen{Process: process, Marker: "x", Now: now}
	for what, test := range map[string]struct {
		reply        scripts.Reply
		lasts        time.Duration
		shows, isOwn bool
	}{
		"a grant":                     {granted(7), 0, false, false},
		"held":                        {held(5*time.Second, 0), 0, false, false},
		"in quarantine":               {scripts.Reply{Acquire: scripts.AcquireReply{Outcome: scripts.Quarantined, Wait: 5 * time.Second}}, 5 * time.Second, false, false},
		"a look":                      {scripts.Reply{Look: seen}, 20 * time.Second, true, true},
		"a look at another process's": {scripts.Reply{Look: ofAnother}, 0, true, false},
		"a look at no marker":         {scripts.Reply{Look: noMarker}, 0, false, false},
		"a refusal":                   {scripts.Reply{NotAccepted: seen}, 0, true, true},
		"a refusal by another's":      {scripts.Reply{NotAccepted: ofAnother}, 0, true, false},
		"a mark":                      {scripts.Reply{Mark: &scripts.MarkReply{Written: true, Marker: m.String(), Now: now}}, 20 * time.Second, true, true},
		"a mark that is not written":  {scripts.Reply{Mark: &scripts.MarkReply{Marker: m.String(), Now: now}}, 20 * time.Second, false, false},
		"a mark over no marker":       {scripts.Reply{Mark: &scripts.MarkReply{Written: true, Marker: "x", Now: now}}, 0, false, false},
	} {
		testkit.Equal(t, test.reply.Quarantine(), test.lasts, what+": the quarantine")
		marker, shows, isOwn := test.reply.ShowsMarker()
		testkit.Check(t, shows == test.shows && (!shows || isOwn == test.isOwn && marker.String() == m.String()),
			"%s: it shows %q: %v, its own: %v", what, marker, shows, isOwn)
	}
	for marker, want := range map[string]time.Duration{m.String(): 20 * time.Second, "x": 0} {
		testkit.Equal(t, operators.InspectReply{Marker: marker, Now: now}.Quarantine(), want, "the quarantine of a state")
	}
}

// The error has the kind and the text of what came.
func TestMalformedRepliesAreShown(t *testing.T) {
	for want, v := range map[string]any{
		`scripts: malformed reply to raise: int64 "-1"`:   int64(-1),
		`scripts: malformed reply to raise: []uint8 "OK"`: bulk("OK"),
	} {
		_, err := parsers["raise"](v)
		testkit.Equal(t, fmt.Sprint(err), want, "the error")
	}
}
