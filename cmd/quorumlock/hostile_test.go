//go:build unix

package main

import (
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/clitest"
	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// evil is a text that a terminal must not get: control sequences of both kinds, a change of the direction of writing, and a
// forged line.
const evil = "evil\x1b[2J\u009b31m\x9b\x07\x00\x7f\u202e\u200b\U000e0041\r\n\tFORGED"

// evilReply is evil as far as an error reply can have it.
var evilReply = strings.NewReplacer("\r", "", "\n", "").Replace(evil)

// Whatever masters say of themselves, of locks and of their holders, and however they refuse: every command shows it as printable
// text in lines of its own.
func TestHostileMasters(t *testing.T) {
	t.Parallel()
	for name := range rows() {
		help, _ := clitest.Command(t, cli.ExitOK, append(strings.Fields(name), "-h")...)
		has := func(line string) bool { return strings.HasPrefix(line, name+" ") }
		testkit.Check(t, !strings.Contains(help, "--urls-file") || slices.ContainsFunc(onMasters, has),
			"%s asks masters, and is missing in onMasters", name)
	}
	for how, forge := range map[string]hostileMaster{
		"other members":          {members: []string{evil, "a, b"}},
		"next members":           {next: []string{"m", evil}},
		"another member":         {member: evil},
		"claimed":                {members: []string{evil}, claimed: true},
		"another process":        {process: evil},
		"the same members":       {},
		"a policy":               {info: "maxmemory:100\r\nmaxmemory_policy:" + evil + "\r\n"},
		"a role":                 {info: "role:" + evil + "\r\n"},
		"a version":              {info: "valkey_version:" + strings.ReplaceAll(evilReply, "\x00", "") + "\r\n"},
		"scripts refused":        {refuses: "EVAL", code: "ERR"},
		"scripts refused for us": {refuses: "EVAL", code: "QUORUMLOCK"},
		"permissions":            {refuses: "EVAL", code: "NOPERM"},
		"INFO refused":           {refuses: "INFO", code: "WRONGPASS"},
		"everything refused":     {refuses: "", code: "LOADING"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			urls := forge.start(t)
			file := filepath.Join(t.TempDir(), "urls")
			testkit.Must(t, os.WriteFile(file, []byte(urls), 0o600))
			// Masters that stand still show nothing.
			seen := clitest.WhileStalled(t, time.Second, func() (string, bool) {
				seen := showAll(t, file)
				return seen, strings.Contains(seen, "evil")
			})
			testkit.Check(t, strings.Contains(seen, "evil"), "nothing of it is shown: the test shows nothing:\n%s", seen)
		})
	}
}

// onMasters are lines with every command that asks masters; F stands for the flags that lead to them.
var onMasters = []string{
	"status F a", "status -json F a", "top F", "unlock F a", "unlock -yes F a",
	"check F", "check -json F", "admit F", "admit -members F", "admit -yes F", "admit -yes -members F",
	"members show F", "members commit F", "members abort F", "members remove F m", "members add F",
	"run -n F a -- true", "run -w 30ms F a -- true",
}

// showAll runs every command on masters, and returns what they print.
func showAll(t *testing.T, file string) (seen string) {
	t.Helper()
	for _, line := range onMasters {
		var out, errs child.Printed
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a command that hangs
		began := time.Now()
		args := strings.Fields(line)
		at := slices.Index(args, "F")
		clitest.Run(ctx, slices.Replace(args, at, at+1, "-timeout", "2s", "-urls-file", file), &out, &errs)
		if d := time.Since(began); d > time.Second {
			t.Log(line, d)
		}
		cancel()
		for _, printed := range []string{out.String(), errs.String()} {
			seen += printed
			wantPlain(t, line, printed)
		}
		testkit.Check(t, !strings.Contains(line, "-json") || json.Valid([]byte(out.String())), "%v: no JSON: %q", line, out.String())
	}
	return seen
}

// wantPlain fails the test if a text would do more to a terminal than fill lines, or has a forged one.
func wantPlain(t *testing.T, what, printed string) {
	t.Helper()
	for _, r := range printed {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%s prints %q:\n%q", what, r, printed)
			return
		}
	}
	testkit.Check(t, utf8.ValidString(printed), "%s prints what is no text:\n%q", what, printed)
	for line := range strings.Lines(printed) {
		testkit.Check(t, !strings.HasPrefix(strings.TrimSpace(line), "FORGED"),
			"%s prints a forged line:\n%s", what, printed)
	}
}

// hostileMaster is a server that answers as a master may, with texts that were forged.
type hostileMaster struct {
	members, next []string // instead of its own list, which has one member, m
	member        string   // instead of m
	process       string   // that a look tells, as the one at the other end
	claimed       bool
	info          string // more of it
	refuses, code string // commands that begin so, by an error of that code; none without a code
}

// start serves three masters until the test ends, and returns their URLs. The first is named m.
func (h hostileMaster) start(t *testing.T) (urls string) {
	t.Helper()
	for i, name := range []string{"m", "n", "o"} {
		runID := strings.Repeat(fmt.Sprint(i), 40)
		addr, _ := canned.Listen(t, func(args []string) string { return h.answer(args, runID) })
		urls += fmt.Sprintf("redis://%s?name=%s\n", addr, name)
	}
	return urls
}

func (h hostileMaster) answer(args []string, runID string) string {
	if h.code != "" && strings.HasPrefix(args[0], h.refuses) {
		return "-" + h.code + " " + evilReply + "\r\n"
	}
	switch args[0] {
	case "INFO":
		return canned.Bulk("run_id:" + runID + "\r\nredis_version:7.0.15\r\nrole:master\r\n" + h.info)
	case "CONFIG":
		return canned.Array("save", evil)
	case "EVALSHA", "EVAL":
		return h.script(args, runID)
	case "PING":
		return "+PONG\r\n"
	}
	return canned.Bulk("laddr=" + evil + " db=0")
}

func (h hostileMaster) script(args []string, runID string) string {
	now := int(time.Now().UnixMilli())
	name := "survey"
	for _, s := range scripts.All() {
		if args[1] == s.Source() || args[1] == fmt.Sprintf("%x", sha1.Sum([]byte(s.Source()))) {
			name = s.Name()
		}
	}
	p := scripts.Process{Run: runID, MaxLease: node.DefaultMaxLease, Member: "m"}
	if name == "look" {
		p, _ = scripts.ParseProcess(args[len(args)-1])
	}
	m := scripts.Marker{Process: p, Generation: 1, Members: scripts.NewList("m", "n", "o"), Next: scripts.NewList(h.next...), Claimed: h.claimed}
	if h.members != nil {
		m.Members = scripts.NewList(h.members...)
	}
	if h.member != "" {
		m.Member = h.member
	}
	if h.process != "" {
		p.Member = h.process
	}
	owner := evil + ":1"
	identity, _ := json.Marshal(scripts.Identity{Host: evil, PID: 7, Program: evil, Label: evil})
	switch name {
	case "look":
		return canned.Array(m.String(), now, p.String())
	case "inspect":
		return canned.Array(owner, "1", 5000, "1700000000000000", m.String(), now, 0, 0)
	case "who":
		return canned.Array([]any{string(identity)}...)
	case "lockers":
		return "*2\r\n" + canned.Bulk("0") + canned.Array("quorumlock:locker:"+evil, string(identity), 70000)
	case "survey":
		return "*3\r\n" + canned.Bulk("0") + canned.Array("a", evil) + canned.Array("redisson_lock__channel:{"+evil+"}", 7)
	case "mark":
		return canned.Array(0, m.String(), now)
	case "force":
		return ":1\r\n"
	case "acquire":
		return canned.Array("held", 5000, 0, owner)
	}
	return "-ERR " + evilReply + "\r\n"
}
