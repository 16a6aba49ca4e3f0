package node_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/canned"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/operator"
)

// What Check says of a server by its clock and its INFO.
func TestCheckOfAStrangeServer(t *testing.T) {
	for what, c := range map[string]struct {
		ahead   time.Duration
		info    string // in place of the role
		save    string // the reply to CONFIG GET save
		want    operator.Report
		hazards []string
	}{
		"a clock ahead":         {ahead: time.Minute, hazards: []string{"its clock is %v ahead of this machine's"}},
		"a clock behind":        {ahead: -time.Minute, hazards: []string{"its clock is %v behind this machine's"}},
		"a clock a little off":  {ahead: 100 * time.Millisecond},
		"Valkey":                {info: "role:master\r\nvalkey_version:8.1.0", want: operator.Report{Role: "master", Version: "valkey 8.1.0"}},
		"up for a day":          {info: "role:master\r\nuptime_in_seconds:86400", want: operator.Report{Role: "master", Uptime: 24 * time.Hour}},
		"no role":               {info: "x:y", hazards: []string{"does not say whether it is a master"}},
		"no word of save":       {save: array(), want: operator.Report{Role: "master", Persistence: "unknown"}},
		"save points of a mess": {save: array("save"), want: operator.Report{Role: "master", Persistence: "unknown"}},
	} {
		t.Run(what, func(t *testing.T) {
			f := startFake(t, func(args []string) string {
				switch {
				case args[0] == "INFO" && c.info != "":
					return bulk("run_id:" + strings.Repeat("0", 40) + "\r\n" + c.info + "\r\n")
				case args[0] == "EVAL" && args[2] == "0":
					return ":1\r\n"
				case args[0] == "CONFIG":
					return cmp.Or(c.save, array("save", ""))
				case isLook(args):
					process := args[len(args)-1]
					return array(markerOf(process), int(time.Now().Add(c.ahead).UnixMilli()), process)
				}
				reply, ok := greeting(args)
				return map[bool]string{true: reply, false: "$-1\r\n"}[ok]
			})
			began := time.Now()
			report := check(t, openQuarantined(t, f.url(), node.DefaultMaxLease))
			took := time.Since(began)
			for i, hazard := range c.hazards {
				c.hazards[i] = strings.Replace(hazard, "%v", report.ClockAhead.Abs().Round(100*time.Millisecond).String(), 1)
			}
			warns(t, report, c.hazards...)
			testkit.Check(t, c.ahead.Abs() < time.Second || (report.ClockAhead-c.ahead).Abs() <= took+time.Millisecond, "ahead by %v", report.ClockAhead)
			if c.want.Role != "" {
				testkit.Check(t, report.Role == c.want.Role && report.Version == c.want.Version && report.Uptime == c.want.Uptime &&
					report.Persistence == cmp.Or(c.want.Persistence, "none"), "%+v, want %+v", report, c.want)
			}
		})
	}
}

// A server that hangs up does not count as refusing writes, nor one that refuses PING with its disk full as down.
func TestCheckOfAServerThatAnswersNotAll(t *testing.T) {
	for what, c := range map[string]struct {
		command, reply string
		check, admit   string // the errors; empty for none
	}{
		"hangs up at the trial": {"SET", canned.HangUp, "EOF", ""},
		"refuses PING":          {"PING", "-NOPERM no\r\n", "NOPERM no", ""},
		"has a full disk":       {"PING", "-MISCONF full\r\n", "", ""},
		"hangs up at the look":  {"look", canned.HangUp, "EOF", "EOF"},
	} {
		f := startFake(t, func(args []string) string {
			if args[0] == c.command || c.command == "look" && isLook(args) {
				return c.reply
			}
			reply, ok := greeting(args)
			return map[bool]string{true: reply, false: "$-1\r\n"}[ok]
		})
		n := open(t, f.url())
		_, err := operator.Check(t.Context(), n)
		testkit.Check(t, (err == nil) == (c.check == "") && strings.Contains(fmt.Sprint(err), c.check), "%s: check: %v", what, err)
		err = operator.AdmitMembers(t.Context(), n, []string{nodeName})
		testkit.Check(t, (err == nil) == (c.admit == "") && strings.Contains(fmt.Sprint(err), c.admit), "%s: admit: %v", what, err)
	}
}
