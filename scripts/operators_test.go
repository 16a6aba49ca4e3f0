package scripts_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
)

func liftVectors() []vector {
	lift := func(v vector, token uint64, names ...string) vector {
		wanted := new(operators.Counters)
		for _, name := range names {
			number, _ := strconv.Atoi(strings.TrimPrefix(counterOf(name), scripts.CounterPrefix))
			wanted[number] = token
		}
		v.call = wanted.Above(new(operators.Counters))[0]
		return v
	}
	return []vector{
		lift(vector{name: "raises", before: state(counted("k", "7")), want: int64(1), after: []check{counter("k", "9")}}, 9, "k"),
		lift(vector{name: "raises what nobody holds, and what is missing", before: state(counted("k", "7"), counted("l", "-1")), want: int64(3),
			after: []check{counter("a", "9"), counter("k", "9"), counter("l", "9")}}, 9, "k", "l", "a"),
		lift(vector{name: "never lowers", before: state(counted("k", "12"), counted("l", "9")), want: int64(0), untouched: true}, 9, "k", "l"),
		lift(vector{name: "a counter that is no number", before: state(counted("a", "x")), untouched: true,
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`}, 9, "a"),
		lift(vector{name: "a counter that is nan", before: state(counted("a", "nan")), untouched: true,
			err: `QUORUMLOCK the token counter "quorumlock:counter:52512" is not`}, 9, "a"),
	}
}

// No master in memory knows this script.
func TestSurvey(t *testing.T) {
	s := startReal(t)
	survey := func(v vector, names ...string) {
		v.call, v.untouched = operators.Survey("0"), true
		v.want = &operators.SurveyReply{Cursor: "0", Names: names, Waiting: map[string]int{"awaited": 1, "await{ed": 1, "quorumlock:slots:crowded": 1}}
		t.Run(v.name, func(t *testing.T) { v.run(t, s) })
	}
	survey(vector{name: "nothing"})
	survey(vector{name: "a lock", before: state(holds("k", me, "1"), holds("l", "name", "bob"), []any{"SET", "m", "x"})}, "k")
	survey(vector{name: "readers", before: state(reads(me, lease), []any{"ZADD", "l", 10, "alice:1"})}, "k")
	survey(vector{name: "a long name", before: state(holds(strings.Repeat("k", 512), me, "1"), holds(strings.Repeat("k", 513), me, "1"))},
		strings.Repeat("k", 512))
}

func countersVectors() []vector {
	number, _ := strconv.Atoi(strings.TrimPrefix(counterOf("k"), scripts.CounterPrefix))
	call := operators.ReadCounters()[number/1024]
	place := number%1024 + 1
	return []vector{
		{name: "none", call: call, want: []operators.Counter(nil), untouched: true},
		{name: "one, and others of other calls", before: state(counted("k", "7"), counted("a", "8")), call: call,
			want: []operators.Counter{{Place: place, Text: "7"}}, untouched: true},
		{name: "two in one call", before: state(counted("k", "7"), []any{"SET", scripts.CounterPrefix + strconv.Itoa(number/1024*1024), "5", "PX", time.Hour.Milliseconds()}),
			call: call, want: []operators.Counter{{Place: 1, Text: "5"}, {Place: place, Text: "7"}}, untouched: true},
		{name: "a long text, and a key of another type", before: state(counted("k", strings.Repeat("1", 100)), []any{"RPUSH", scripts.CounterPrefix + strconv.Itoa(number+1), "x"}),
			call: call, want: []operators.Counter{{Place: place, Text: strings.Repeat("1", 64)}}, untouched: true},
	}
}
