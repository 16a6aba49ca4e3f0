package register

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestRegisterFences(t *testing.T) {
	var r Register
	for _, step := range []struct {
		token uint64
		write string // "" for a read
		want  string // what a read finds
		stale bool
	}{
		{token: 5, want: ""}, {token: 5, write: "a"}, {token: 5, want: "a"}, {token: 5, write: "b"},
		{token: 4, write: "c", stale: true},
		{token: 4, stale: true}, {token: 7, want: "b"}, {token: 6, write: "d", stale: true},
		{token: 5, write: "d", stale: true},
		{token: 7, write: "e"}, {token: 1<<53 - 1, want: "e"}, {token: 7, write: "f", stale: true},
	} {
		var got string
		var err error
		if step.write != "" {
			err = r.Write(step.token, step.write)
		} else {
			got, err = r.Read(step.token)
		}
		testkit.Require(t, errors.Is(err, ErrStale) == step.stale && (err == nil || step.stale) && got == step.want,
			"%+v: %q %v", step, got, err)
	}
	found := r.Check()
	testkit.Check(t, len(found) == 0, "found %v", found)
}

func TestLostWritesAreFound(t *testing.T) {
	read := func(token uint64, value string) Access { return Access{Token: token, Value: value} }
	write := func(token uint64, value string) Access { return Access{Token: token, Write: true, Value: value} }
	for title, test := range map[string]struct {
		accepted []Access
		now      string
		want     string // part of the one violation; "" for none
	}{
		"nothing":                 {nil, "", ""},
		"a value without a write": {nil, "x", `the value is "x"`},
		"the last":                {[]Access{write(1, "a"), write(1, "b"), write(2, "c")}, "c", ""},
		"the last is lost":        {[]Access{write(1, "a"), write(2, "b")}, "a", `write of "b" with token 2 is lost`},
		"all is lost":             {[]Access{write(1, "a")}, "", `write of "a" with token 1 is lost`},
		"overwritten by a lower token": {[]Access{write(2, "a"), write(1, "b")}, "b",
			`write of "b" with token 1 was acknowledged after the write of "a" with token 2, which is higher`},
		"overwritten by a lower token than that of a read": {[]Access{read(2, ""), write(1, "b")}, "b",
			"acknowledged after the read"},
		"written blindly": {[]Access{read(1, ""), write(2, "a"), write(3, "b")}, "b", ""},
		"written twice by a holder that had read": {[]Access{read(3, ""), read(4, ""), write(4, "a"), write(4, "b")},
			"b", ""},
		"lost to a holder that had read before": {[]Access{read(5, ""), write(4, "a"), write(5, "b")}, "b",
			`write of "a" with token 4 is lost: overwritten by the write of "b" with token 5, after its read of "" with token 5`},
		"a read of what was never written": {[]Access{read(4, "old"), write(4, "a")}, "a", `read of "old"`},
		"forgotten between": {[]Access{write(1, "a"), read(1, "")}, "a",
			`read of "" with token 1, where the last acknowledged one was the write of "a"`},
	} {
		t.Run(title, func(t *testing.T) {
			got := (&Register{accepted: test.accepted, value: test.now}).Check()
			text := fmt.Sprint(got)
			testkit.Require(t, (test.want != "" || len(got) == 0) && strings.Contains(text, test.want),
				"%v, want %q", got, test.want)
			for _, v := range got {
				testkit.Check(t, v.Rule == "register", "%v is of the rule %q", v, v.Rule)
			}
		})
	}

	var r Register
	testkit.Must(t, r.Write(3, "kept"))
	r.value = "restored from a snapshot"
	got := r.Check()
	testkit.Check(t, len(got) == 1 && strings.Contains(got[0].String(), `write of "kept" with token 3 is lost`), "found %v", got)
}
