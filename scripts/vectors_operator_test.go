package scripts_test

import (
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

// foreign holds hashes at "k" that are no locks.
var foreign = []struct {
	name string
	make [][]any
}{
	{"a hash of several fields", state([]any{"HSET", "k", "a", "1", "b", "2"}, expire("k", lease))},
	{"a hash of several owners", state([]any{"HSET", "k", me, "1", rival, "1"})},
	{"a hash with text", state(holds("k", "name", "bob"))},
	{"a hash with text, for a while", state(holds("k", "name", "bob"), expire("k", lease))},
	{"a hash with text in a field like an owner", state(holds("k", me, "bob"), expire("k", lease))},
	{"a hash with a number", state(holds("k", "visits", "17"))},
	{"a hash with a number in a field that begins with a colon", state(holds("k", ":17", "1"))},
	{"a hash with a number in a field that ends in a colon", state(holds("k", "visits:", "17"))},
	{"a hash with a number in a field with digits and more", state(holds("k", "visits:17 ", "17"))},
	{"a hash with a number in no field, for a while", state(holds("k", "", "1"), expire("k", lease))},
	{"a hash with nothing", state(holds("k", me, ""))},
	{"a hash with zero", state(holds("k", me, "0"))},
	{"a hash with a negative number", state(holds("k", me, "-1"))},
	{"a hash with a fraction", state(holds("k", me, "1.5"))},
	{"a hash with a number that begins with zero", state(holds("k", me, "01"))},
	{"a hash with a number too long", state(holds("k", me, "1000000000"))},
}

func inspectVectors() []vector {
	inspect := func(v vector, name string) vector {
		v.call, v.parse, v.untouched = scripts.Inspect(scripts.NewName(name)), parsed(scripts.ParseInspect), true
		return v
	}
	type reply = scripts.InspectReply
	vectors := []vector{
		inspect(vector{name: "nothing", want: reply{}}, "k"),
		inspect(vector{name: "held", before: state(ready, holds("k", me, "3"), expire("k", lease), counted("k", "1800000000000002")),
			want: reply{Owner: me, Level: 3, TTL: lease, Token: 1800000000000002, Run: runID}}, "k"),
		inspect(vector{name: "held for ever", before: state(holds("k", me, "1")), want: reply{Owner: me, Level: 1, TTL: -1}}, "k"),
		inspect(vector{name: "free, with a past", before: state(ready, counted("k", "7")), want: reply{Token: 7, Run: runID}}, "k"),
		inspect(vector{name: "quarantined", before: state(markerOf("other", serverTime(20*time.Second), "30000")),
			want: reply{Run: "other", Quarantine: 20 * time.Second}}, "k"),
		inspect(vector{name: "quarantine over", before: state(markerOf(runID, serverTime(-time.Hour), "30000")), want: reply{Run: runID}}, "k"),
		// As in acquire, a marker without a valid time counts as missing, not as long past.
		inspect(vector{name: "marker without the time", before: state([]any{"HSET", marker, "run", runID, "max", "30000"}), want: reply{}}, "k"),
		inspect(vector{name: "marker with a time that is none", before: state(markerOf(runID, "soon", "30000")), want: reply{}}, "k"),
		inspect(vector{name: "marker with nan for a time", before: state(markerOf(runID, "nan", "30000")), want: reply{}}, "k"),
		inspect(vector{name: "marker with a time beyond all bounds", before: state(markerOf(runID, "1e999", "30000")), want: reply{}}, "k"),
		inspect(vector{name: "an application's counter, with a time to live", before: state(holds("k", "visits", "5"), expire("k", lease)),
			err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "held as often as can be", before: state(holds("k", me, "999999999")),
			want: reply{Owner: me, Level: 999999999, TTL: -1}}, "k"),
		inspect(vector{name: "an owner that is none", before: state(holds("k", strings.Repeat("x", 5000), "1")), err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "a level that is none", before: state(holds("k", me, strings.Repeat("1", 5000))), err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "a counter that is none", before: state(counted("k", strings.Repeat("1", 5000))), err: "QUORUMLOCK"}, "k"),
		inspect(vector{name: "a string at the name", before: state([]any{"SET", "k", "x"}), err: "WRONGTYPE"}, "k"),
		inspect(vector{name: "a name byte for byte", before: state(holds("a\x00\nb", me, "1"), expire("a\x00\nb", lease)),
			want: reply{Owner: me, Level: 1, TTL: lease}}, "a\x00\nb"),
	}
	for _, h := range foreign {
		vectors = append(vectors, inspect(vector{name: h.name, before: state(h.make...), err: noLock}, "k"))
	}
	return vectors
}

func forceVectors() []vector {
	force := func(v vector, owners ...string) vector {
		var barred []scripts.Owner
		for _, owner := range owners {
			barred = append(barred, scripts.OwnerOf(owner))
		}
		v.call, v.parse = scripts.Force(scripts.NewName("k"), barred, maxLease), parsed(scripts.ParseForce)
		return v
	}
	freed := []message{{"redisson_lock__channel:{k}", "0"}}
	rivalTomb := "quorumlock:released:" + rival
	vectors := []vector{
		force(vector{name: "deletes", before: state(holds("k", me, "3"), expire("k", lease), counted("k", "7")), want: true, published: freed,
			after: []check{absent("k", tomb), text("quorumlock:token:k", "7")}}),
		force(vector{name: "deletes a lock without a time to live", before: state(holds("k", me, "1")), want: true, published: freed,
			after: []check{absent("k")}}),
		force(vector{name: "leaves an application's counter, with a time to live", before: state(holds("k", "visits", "5"), expire("k", lease)),
			err: "QUORUMLOCK", untouched: true}),
		force(vector{name: "nothing there", before: state(counted("k", "7")), want: false, untouched: true}),
		force(vector{name: "bars owners", before: state(holds("k", me, "1"), expire("k", lease)), want: true, published: freed,
			after: []check{absent("k"), ttl(tomb, maxLease), ttl(rivalTomb, maxLease)}}, me, rival),
		force(vector{name: "bars owners where nothing is", want: false, after: []check{absent("k"), ttl(tomb, maxLease)}}, me),
		force(vector{name: "a string is not deleted", before: state([]any{"SET", "k", "x"}), err: "WRONGTYPE", untouched: true}, me),
		force(vector{name: "a list is not deleted", before: state([]any{"RPUSH", "k", "x"}), err: "WRONGTYPE", untouched: true}),
	}
	for _, h := range foreign {
		vectors = append(vectors, force(vector{name: h.name + " is not deleted", before: state(h.make...), err: noLock, untouched: true}, me))
	}
	return vectors
}

func admitVectors() []vector {
	admit := func(v vector, quarantine time.Duration, byOperator bool) vector {
		v.call = scripts.Admit(scripts.AdmitArgs{MaxLease: maxLease, Quarantine: quarantine, ByOperator: byOperator})
		v.parse = parsed(scripts.ParseAdmit)
		return v
	}
	type reply = scripts.AdmitReply
	admitted := func(in time.Duration) []check { return []check{marked(in), ttl(marker, -1)} }
	waiting := markerOf(runID, serverTime(20*time.Second), "30000")
	return []vector{
		admit(vector{name: "a process not seen before", want: reply{Left: maxLease}, after: admitted(maxLease)}, maxLease, false),
		admit(vector{name: "no quarantine", want: reply{}, after: admitted(0)}, 0, false),
		admit(vector{name: "another process", before: state(markerOf("other", serverTime(-time.Hour), "30000")), want: reply{Left: maxLease},
			after: admitted(maxLease)}, maxLease, false),
		admit(vector{name: "another process, without quarantine", before: state(markerOf("other", serverTime(lease), "30000")), want: reply{},
			after: admitted(0)}, 0, false),
		admit(vector{name: "in quarantine still", before: state(waiting), want: reply{Left: 20 * time.Second}, untouched: true, twice: true}, maxLease, false),
		admit(vector{name: "admitted long ago", before: state(ready), want: reply{}, untouched: true, twice: true}, maxLease, false),
		admit(vector{name: "further ahead than max lease", before: state(markerOf(runID, serverTime(time.Hour), "30000")),
			want: reply{Left: maxLease}, after: admitted(maxLease)}, maxLease, false),
		admit(vector{name: "waits, but this client does not", before: state(waiting), want: reply{}, after: admitted(0)}, 0, false),
		admit(vector{name: "without the time", before: state([]any{"HSET", marker, "run", runID, "max", "30000"}), want: reply{Left: maxLease},
			after: admitted(maxLease)}, maxLease, false),
		admit(vector{name: "with a time that is none", before: state(markerOf(runID, "soon", "30000")), want: reply{Left: maxLease},
			after: admitted(maxLease)}, maxLease, false),
		admit(vector{name: "with nan for a time", before: state(markerOf(runID, "nan", "30000")), want: reply{Left: maxLease},
			after: admitted(maxLease)}, maxLease, false),
		admit(vector{name: "without a max lease", before: state([]any{"HSET", marker, "run", runID, "admitted", serverTime(-time.Hour)}),
			want: reply{}, after: []check{hashField(marker, "max", "30000")}}, maxLease, false),
		admit(vector{name: "another max lease", before: state(markerOf(runID, serverTime(-time.Hour), "60000")),
			want: reply{MaxLease: time.Minute}, untouched: true}, maxLease, false),
		admit(vector{name: "another max lease of another process", before: state(markerOf("other", serverTime(-time.Hour), "60000")),
			want: reply{MaxLease: time.Minute}, untouched: true}, 0, false),
		admit(vector{name: "operator, nothing there", want: reply{}, after: admitted(0)}, maxLease, true),
		admit(vector{name: "operator ends a quarantine", before: state(waiting), want: reply{}, after: admitted(0)}, maxLease, true),
		admit(vector{name: "operator changes the max lease", before: state(markerOf("other", serverTime(time.Hour), "60000")), want: reply{},
			after: admitted(0)}, maxLease, true),
		admit(vector{name: "a string at the marker", before: state([]any{"SET", marker, "x"}), err: "WRONGTYPE", untouched: true}, maxLease, false),
	}
}
