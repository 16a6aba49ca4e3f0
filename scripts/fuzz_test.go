package scripts_test

import (
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

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
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
			if err != nil {
				refusesOne := script == "acquires" || script == "releases" // an error reply to one of a run's calls
				if refusesOne = refusesOne && errors.As(err, new(redis.Error)); refusesOne {
					continue
				}
				if !errors.Is(err, scripts.ErrReply) || len(err.Error()) > 300 {
					t.Errorf("%s: %#v: %v, want ErrReply, in short", script, value, err)
				}
			} else if !possible(script, value, got) {
				t.Errorf("%s: %#v is read as %+v", script, value, got)
			}
			if reply, ok := got.(scripts.AcquireReply); ok && err != nil && reply != (scripts.AcquireReply{}) {
				t.Errorf("%s: %#v is %+v with %v", script, value, got, err)
			}
			number, whole := value.(int64)
			grants := err == nil && script == "acquire" && got.(scripts.AcquireReply).Outcome == scripts.Granted
			if wants := script == "acquire" && whole && number >= 1 && number < 1<<52; grants != wants {
				t.Errorf("%s: %#v is a grant: %v, want %v", script, value, grants, wants)
			}
		}
	})
}

// possible reports whether a script can have sent the value. The caller judges grants.
func possible(script string, value, got any) bool {
	wait := func(d time.Duration) bool { return d == -1 || d >= 0 && d%time.Millisecond == 0 }
	switch got := got.(type) {
	case []any: // of a run
		for i, reply := range got {
			if acquired, ok := reply.(scripts.AcquireReply); ok && acquired.Outcome == scripts.Granted {
				if value == any(int64(1)) && acquired.Token == seed {
					continue
				}
				list, _ := value.([]any)
				if token, err := redis.Uint64(list[i], nil); err != nil || token != acquired.Token || token == 0 {
					return false
				}
			}
			if released, ok := reply.(scripts.ReleaseReply); ok && (released.Found < 0 || released.Found > 1 || released.Heard != 0 && released.Found == 0) {
				return false
			}
		}
		return len(got) == 4
	case scripts.AcquireReply:
		number, _ := value.(int64)
		if script == "acquire" && number == 1 { // of usual.lua
			number = seed
		}
		return wait(got.Wait) && got.Waiting >= 0 && (got.Waiting == 0 || got.Outcome == scripts.HeldByAnother) && (got.Wait != -1 || got.Outcome == scripts.HeldByAnother) && got.Token == uint64(number) &&
			(got.Outcome == scripts.Granted) == (got.Token != 0)
	case []scripts.Renewed:
		letters, known := value.([]byte), []scripts.Renewed{scripts.Kept, scripts.NotRaised, scripts.Gone, scripts.Taken}
		strange := func(r scripts.Renewed) bool {
			return !slices.Contains(known, r) || !bytes.Contains(letters, []byte{byte(r)})
		}
		kept := !slices.ContainsFunc(got, func(r scripts.Renewed) bool { return r != scripts.Kept })
		return len(got) == len(threeLocks) && !slices.ContainsFunc(got, strange) && kept == bytes.Equal(letters, []byte("RRRR"))
	case scripts.ReleaseReply:
		if got.Heard == 0 {
			return got.Found >= 0 && got.Found <= 3 && value == int64(got.Found)
		}
		both := []any{int64(got.Found), int64(got.Heard)}
		return got.Found >= 1 && got.Found <= 3 && got.Heard >= -1 && reflect.DeepEqual(value, both)
	case int64: // of lift
		return value == got && got >= 0
	case bool:
		return script == "introduce" || value == int64(1) && got || value == int64(0) && !got
	case uint64:
		return value == int64(got) && got < 1<<52
	case scripts.InspectReply:
		return got.Depth >= 0 && got.Token < 1<<53 && wait(got.TTL) && got.Now >= 0
	case refusedRenewal:
		return got.refusal.Process.MaxLease >= 0 && len(got.renewed) == len(threeLocks)
	case scripts.LookReply:
		return got.Now >= 0 && got.Process.MaxLease >= 0
	case scripts.MarkReply:
		return got.Now >= 0
	case *operators.SurveyReply:
		return got.Waiting != nil
	case *operators.LockersReply:
		return !slices.ContainsFunc(got.Found, func(l operators.Introduced) bool { return l.Left < 0 || l.Identity.PID <= 0 })
	case []operators.Counter:
		return !slices.ContainsFunc(got, func(c operators.Counter) bool { return c.Place < 1 })
	case scripts.SlotsReply:
		return wait(got.Wait) && got.Waiting >= 0 && len(got.Free) <= 2 && slices.IsSorted(got.Free)
	case []scripts.Identity:
		return len(got) == 2 && !slices.ContainsFunc(got, func(is scripts.Identity) bool {
			return is.PID < 0 || !scripts.ValidLabel(is.Host) || !scripts.ValidLabel(is.Program) || !scripts.ValidLabel(is.Label)
		})
	}
	return false
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
			{scripts.Inspect(both[0]), []string{"4", marker, first, counter(first), "quorumlock:writer:" + first}},
			{scripts.Force(both[0], []scripts.Owner{owner}, token, time.Millisecond),
				[]string{"4", first, counter(first), "quorumlock:forced:" + first, tomb, channel(first), "1", digits}},
			{scripts.Introduce(first, scripts.Identity{Host: "h", PID: 1}, ours, 1500*time.Microsecond),
				[]string{"1", lockerKey + first, `{"host":"h","pid":1,"list":"205830ca5b23bbe3"}`, "45002"}},
			{scripts.Who([]string{first, second}), []string{"2", lockerKey + first, lockerKey + second}},
			{scripts.Slots(first, 2), []string{"2", "quorumlock:slot:0:" + first, "quorumlock:slot:1:" + first, channel("quorumlock:slots:" + first)}},
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
func overTheWire(t *testing.T, name string, args []any) (command []string) {
	t.Helper()
	var wire written
	c := redis.NewConn(&wire, 0, 0)
	testkit.Must(t, errors.Join(c.Send(name, args...), c.Flush()))
	number := func(kind byte) int {
		line, err := wire.ReadString('\n')
		n, bad := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(line, string(kind)), "\r\n"))
		if err != nil || bad != nil {
			t.Fatalf("%q is no length", line)
		}
		return n
	}
	for range number('*') {
		n := number('$')
		arg := wire.Next(n + 2)
		if len(arg) != n+2 || string(arg[n:]) != "\r\n" {
			t.Fatalf("%q is no argument of %d bytes", arg, n)
		}
		command = append(command, string(arg[:n]))
	}
	if wire.Len() > 0 {
		t.Fatalf("%q is left", wire.String())
	}
	return command
}
