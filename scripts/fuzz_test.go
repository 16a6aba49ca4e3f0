package scripts_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// FuzzParse feeds every parser every value that redigo can make of a reply. Nothing panics. A reply
// that no script of ours sends is ErrReply. Only a whole number from 1 to 2^52−1 is a grant.
func FuzzParse(f *testing.F) {
	f.Add([]byte("n"))
	for _, number := range []int64{1, 0, -1, 2, 3, 4, 5, 1<<52 - 1, 1 << 52, 1<<53 - 1, 1 << 53, -1 << 63, 1<<63 - 1, (1<<63 - 1) / 1_000_000} {
		f.Add(number64(number))
		for _, word := range []string{"held", "quarantined", "stale", "released", "passed", "maxlease"} {
			f.Add(slices.Concat([]byte("*\x02"), text8('$', word), number64(number)))
			f.Add(slices.Concat([]byte("*\x02"), text8('+', word), number64(number)))
		}
	}
	f.Add(slices.Concat([]byte("*\x03"), text8('$', "held"), number64(1500), number64(8)))
	f.Add(slices.Concat([]byte("*\x03"), text8('$', "reserved"), number64(1500), number64(8)))
	f.Add(slices.Concat([]byte("*\x02"), number64(2), number64(8)))
	f.Add(slices.Concat([]byte("*\x03"), text8('$', "01"), number64(1500), number64(8)))
	for _, letters := range []string{"RRRR", "RGTR", "FRTR", "RRR", "RRRRR", "rrrr", ""} {
		f.Add(text8('$', letters))
	}
	f.Add(slices.Concat([]byte("*\x06"), text8('$', me), text8('$', "1"), number64(5000), text8('$', "7"), text8('$', runID), number64(0)))
	f.Add(slices.Concat([]byte("*\x06"), text8('$', ""), text8('$', ""), number64(-1), text8('$', "18446744073709551616"), text8('$', ""), number64(-1)))
	f.Add(slices.Concat([]byte("*\x02"), text8('$', `{"host":"api-7","pid":4711,"program":"worker","label":"nightly"}`), text8('$', `{"host":"\n\ud800","pid":1}`)))
	f.Add(slices.Concat([]byte("*\x01"), text8('-', "ERR in an array")))
	f.Fuzz(func(t *testing.T, data []byte) {
		value, _ := decode(data, 8)
		for script, parse := range parsers {
			got, err := parse(value)
			reply, isReply := got.(scripts.Reply)
			if err != nil {
				ofOneCall := (script == "acquires" || script == "releases") && errors.As(err, new(redis.Error)) // of a run's calls
				testkit.Check(t, ofOneCall || errors.Is(err, scripts.ErrReply) && len(err.Error()) <= 300,
					"%s: %#v: %v, want ErrReply, in short", script, value, err)
				testkit.Check(t, !isReply || reflect.DeepEqual(reply, scripts.Reply{}), "%s: %#v is %+v with %v", script, value, got, err)
			} else if !possible(script, value, got) {
				t.Errorf("%s: %#v is read as %+v", script, value, got)
			}
			number, whole := value.(int64)
			grants := err == nil && script == "acquire" && reply.Acquire.Outcome == scripts.Granted
			wants := script == "acquire" && whole && number >= 1 && number < 1<<52
			testkit.Check(t, grants == wants, "%s: %#v is a grant: %v, want %v", script, value, grants, wants)
		}
	})
}

// possible reports whether a script can have sent the value. The caller judges grants.
func possible(script string, value, got any) bool {
	if run, ok := got.([]any); ok {
		return possibleRun(value, run)
	}
	wait := func(d time.Duration) bool { return d == -1 || d >= 0 && d%time.Millisecond == 0 }
	switch r := got.(scripts.Reply); script {
	case "acquire":
		number, _ := value.(int64)
		if number == 1 { // of usual.lua
			number = seed
		}
		a := r.Acquire
		return wait(a.Wait) && a.Waiting >= 0 && (a.Waiting == 0 || a.Outcome == scripts.HeldByAnother) &&
			(a.Wait != -1 || a.Outcome == scripts.HeldByAnother) && a.Token == uint64(number) && (a.Outcome == scripts.Granted) == (a.Token != 0)
	case "renew":
		if len(r.Renew) != len(threeLocks) || r.NotAccepted != nil && r.NotAccepted.Process.MaxLease < 0 {
			return false
		}
		if r.NotAccepted != nil {
			return true
		}
		letters, known := value.([]byte), []scripts.Renewed{scripts.Kept, scripts.NotRaised, scripts.Gone, scripts.Taken}
		strange := func(r scripts.Renewed) bool {
			return !slices.Contains(known, r) || !bytes.Contains(letters, []byte{byte(r)})
		}
		kept := !slices.ContainsFunc(r.Renew, func(r scripts.Renewed) bool { return r != scripts.Kept })
		return !slices.ContainsFunc(r.Renew, strange) && kept == bytes.Equal(letters, []byte("RRRR"))
	case "release":
		found, heard := r.Release.Found, r.Release.Heard
		if heard == 0 {
			return found >= 0 && found <= 3 && value == int64(found)
		}
		return found >= 1 && found <= 3 && heard >= -1 && reflect.DeepEqual(value, []any{int64(found), int64(heard)})
	case "raise":
		return value == int64(r.Raise) && r.Raise < 1<<52
	case "force":
		return value == int64(1) && r.Other.(bool) || value == int64(0) && !r.Other.(bool)
	case "introduce":
		return value == int64(1)
	case "lift":
		return value == r.Other && r.Other.(int64) >= 0
	case "inspect":
		i := r.Other.(*operators.InspectReply)
		return i.Depth >= 0 && i.Token < 1<<53 && wait(i.TTL) && i.Now >= 0
	case "look":
		return r.Look.Now >= 0 && r.Look.Process.MaxLease >= 0
	case "mark":
		return r.Mark.Now >= 0
	case "slots":
		hint := r.Other.(semaphores.Hint)
		return wait(hint.Wait) && hint.Waiting >= 0 && len(hint.Free) <= 2 && slices.IsSorted(hint.Free)
	case "who":
		return len(r.Who) == 2 && !slices.ContainsFunc(r.Who, func(is scripts.Identity) bool {
			return is.PID < 0 || !scripts.ValidLabel(is.Host) || !scripts.ValidLabel(is.Program) || !scripts.ValidLabel(is.Label)
		})
	case "survey":
		return r.Other.(*operators.SurveyReply).Waiting != nil
	case "lockers":
		return !slices.ContainsFunc(r.Other.(*operators.LockersReply).Found, func(l operators.Introduced) bool { return l.Left < 0 || l.Identity.PID <= 0 })
	case "counters":
		return !slices.ContainsFunc(r.Other.([]operators.Counter), func(c operators.Counter) bool { return c.Place < 1 })
	}
	return false
}

// possibleRun is possible for the script of a run.
func possibleRun(value any, run []any) bool {
	for i, one := range run {
		r, _ := one.(scripts.Reply) // else it is sent alone
		if r.Acquire.Outcome == scripts.Granted && (value != any(int64(1)) || r.Acquire.Token != seed) {
			list, _ := value.([]any)
			if token, err := redis.Uint64(list[i], nil); err != nil || token != r.Acquire.Token || token == 0 {
				return false
			}
		}
		if found := r.Release.Found; found < 0 || found > 1 || r.Release.Heard != 0 && found == 0 {
			return false
		}
	}
	return len(run) == 4
}

// decode makes a value of redigo from any bytes: a kind as in RESP, then a length or a number in
// binary.
func decode(data []byte, depth int) (value any, rest []byte) {
	if len(data) < 2 {
		return nil, nil
	}
	kind, length := data[0], int(data[1])
	switch kind {
	case ':':
		var number [8]byte
		n := copy(number[:], data[1:])
		return int64(binary.BigEndian.Uint64(number[:])), data[1+n:]
	case '$', '+', '-':
		text := data[2:][:min(length, len(data)-2)]
		rest = data[2+len(text):]
		switch kind {
		case '+':
			return string(text), rest
		case '-':
			return redis.Error(text), rest
		}
		return text, rest
	case '*':
		rest = data[2:]
		if depth == 0 {
			return []any{}, rest
		}
		list := make([]any, length)
		for i := range list {
			list[i], rest = decode(rest, depth-1)
		}
		return list, rest
	}
	return nil, data[1:]
}

func number64(n int64) []byte { return binary.BigEndian.AppendUint64([]byte(":"), uint64(n)) }

func text8(kind byte, s string) []byte { return append([]byte{kind, byte(len(s))}, s...) }

var slotForm = regexp.MustCompile(`(?s)^quorumlock:slot:(?:0|[1-9][0-9]{0,17}):(.*)$`)

// FuzzNames sends any names with every call over the wire. Every byte arrives as part of the keys
// and the channel of its name, and nowhere else.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "k", "a{b}c", "a{b", "a}b", "{", "a\x00b", "a\r\nb", "\xff\xfe", "$3\r\nabc\r\n", "*1\r\n", " ", "%", "{}{}",
		"quorumlock:marker", "quorumlock:counter:52512", "redisson_lock__channel:{k}", "quorumlock:slot:3:k", strings.Repeat("x", 5000)} {
		f.Add(name, "other", "locker:1", uint64(1))
		f.Add("other", name, name, uint64(1<<64-1))
	}
	f.Fuzz(func(t *testing.T, first, second, id string, number uint64) {
		channel := func(name string) string {
			if slot := slotForm.FindStringSubmatch(name); slot != nil {
				name = "quorumlock:slots:" + slot[1]
			}
			if strings.Contains(name, "{") {
				return "redisson_lock__channel:" + name
			}
			return "redisson_lock__channel:{" + name + "}"
		}
		counter := func(name string) string { // FNV-1a of 32 bits, as its authors define it, folded to 16
			sum := uint32(2166136261)
			for _, b := range []byte(name) {
				sum = (sum ^ uint32(b)) * 16777619
			}
			return "quorumlock:counter:" + strconv.FormatUint(uint64(sum>>16^sum&0xffff), 10)
		}
		for _, name := range []string{first, second} {
			testkit.Equal(t, scripts.NewName(name).String(), name, "the name")
			testkit.Equal(t, scripts.Channel(name), channel(name), name)
		}
		made, want := scripts.NewOwner(id, number), id+":"+strconv.FormatUint(number, 10)
		testkit.Check(t, made.String() == want && made == scripts.OwnerOf(want), "the owner %q is %+v", want, made)

		owner, both := scripts.OwnerOf(id), testkit.Names(first, second)
		ms, token := scripts.ToMillis(1500*time.Microsecond), number%(1<<53)
		digits, tomb := strconv.FormatUint(token, 10), "quorumlock:released:"+id
		for _, test := range []struct {
			call scripts.Call
			want []string // after the script
		}{
			{scripts.Acquire(scripts.AcquireArgs{Names: both, Owner: owner, Depth: 3, Lease: ms, List: ours, Token: token, Seed: token}),
				[]string{"6", marker, tomb, counter(first), counter(second), first, second, "3", "2", digits, digits, first}},
			{scripts.Acquire(scripts.AcquireArgs{Names: testkit.Names(first), Owner: owner, Depth: 1, Lease: ms, List: ours, Reservation: ms}),
				[]string{"4", marker, tomb, counter(first), first, "1", "2", "0", "0", "2", first}},
			{scripts.Read(scripts.AcquireArgs{Names: testkit.Names(first), Owner: owner.AsReader(), Depth: 3, Lease: ms, List: ours, Token: token, Seed: token}),
				[]string{"6", marker, tomb, counter(first), "quorumlock:writer:" + first, "quorumlock:forced:" + first, first,
					"2", digits, digits, first}},
			{scripts.Renew(ours, ms, []scripts.Renewal{{Names: both, Owner: owner, Token: token}, {Names: testkit.Names(second), Owner: owner}}),
				[]string{"7", marker, counter(first), counter(second), counter(second), first, second, second,
					id, id, id, "2", fmt.Sprintf("%016d%016d%016d", token, token, 0), first}},
			{scripts.Release(both, owner, 0), []string{"3", tomb, first, second, id, "0", channel(first), channel(second), second}},
			{scripts.Raise(both, owner, token), []string{"4", first, counter(first), second, counter(second), id, digits}},
			{operators.Inspect(both[0]), []string{"4", marker, first, counter(first), "quorumlock:writer:" + first}},
			{operators.Force(both[0], []scripts.Owner{owner}, token, time.Millisecond),
				[]string{"4", first, counter(first), "quorumlock:forced:" + first, tomb, channel(first), "1", digits}},
			{scripts.Introduce(first, scripts.Identity{Host: "h", PID: 1}, ours, 1500*time.Microsecond),
				[]string{"1", lockerKey + first, `{"host":"h","pid":1,"list":"205830ca5b23bbe3"}`, "45002"}},
			{scripts.Who([]string{first, second}), []string{"2", lockerKey + first, lockerKey + second}},
			{semaphores.Slots(first, 2), []string{"2", "quorumlock:slot:0:" + first, "quorumlock:slot:1:" + first, channel("quorumlock:slots:" + first)}},
			{scripts.Look(), []string{"1", marker, second}},
			{scripts.Mark(scripts.Seen{Marker: first}, scripts.Marker{Members: none, Next: none}, scripts.At(time.Second), scripts.In(time.Second), time.Minute),
				[]string{"1", marker, first, "at", "1000", "-\n0", "in", "1000", "\n- ", "60000", " 0 ", second}},
		} {
			name, args := test.call.Command(nil, true, scripts.ConnArgs{Expected: first, Process: second, Tombstone: second})
			got := overTheWire(t, name, args)
			testkit.Check(t, len(got) >= 2 && got[0] == "EVAL" && slices.Equal(got[2:], test.want),
				"%s of %q and %q by %q: %.400q, want %.400q", test.call.Op(), first, second, id, got, test.want)
			name, args = test.call.Command(nil, true, scripts.ConnArgs{Expected: first, Process: second, Tombstone: second, Prefix: "team:"})
			got, want := overTheWire(t, name, args), prefixed(test.want)
			testkit.Check(t, slices.Equal(got[2:], want), "%s of %q and %q by %q with a prefix: %.400q, want %.400q", test.call.Op(), first, second, id, got, want)
		}
	})
}

// prefixed are a command's keys and arguments with a prefix.
func prefixed(command []string) []string {
	keys, _ := strconv.Atoi(command[0])
	all := command[:1:1]
	for i, text := range command[1:] {
		isOwn := strings.HasPrefix(text, "quorumlock:")
		isSought := strings.HasPrefix(text, "redisson_lock__channel:") || strings.HasPrefix(text, "quorumlock:locker:") || strings.HasPrefix(text, "quorumlock:counter:")
		switch {
		case i < keys && !isOwn:
			text = "team:quorumlock:lock:" + text
		case i < keys || isSought:
			text = "team:" + text
		}
		all = append(all, text)
	}
	return all
}

// written is a connection that keeps the bytes written to it.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) { return w.Buffer.Write(p) }
func (w *written) Read([]byte) (int, error)    { return 0, net.ErrClosed }

// overTheWire writes a command as redigo does, and reads it as a server does.
func overTheWire(t *testing.T, name string, args []any) []string {
	t.Helper()
	var wire written
	c := redis.NewConn(&wire, 0, 0)
	testkit.Must(t, errors.Join(c.Send(name, args...), c.Flush()))
	in := bufio.NewReader(&wire.Buffer)
	command := testkit.Got(fakeredis.ReadCommand(in))(t)
	testkit.Equal(t, in.Buffered()+wire.Len(), 0, "bytes behind the command")
	return command
}
