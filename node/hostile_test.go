package node_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
	"github.com/quorumlock/quorumlock/scripts"
)

// What a hostile server says stands in errors, reports and logs as printable text in one line. The error keeps its meaning.
func TestHostileTexts(t *testing.T) {
	const evil = "evil\x1b[2J\u009b31m\x9b\u202e"
	wantPlain := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, "evil") || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("%s: %q", what, text)
		}
	}
	for what, test := range map[string]struct {
		members []string // of the marker
		refuses string   // commands that begin so
		want    error
	}{
		"members": {members: []string{nodeName, evil + "\nforged"}, want: node.ErrMembership},
		"scripts": {refuses: "EVAL"},
		"INFO":    {refuses: "INFO"},
	} {
		t.Run(what, func(t *testing.T) {
			handle := admittedMaster(func([]string) string {
				return array("marker", hostileMarker(test.members), fakeProcess.Expected(members))
			})
			f := startFake(t, func(args []string) string {
				switch {
				case test.refuses != "" && strings.HasPrefix(args[0], test.refuses):
					return "-NOPERM " + evil + "\r\n"
				case test.members != nil && isLook(args):
					return array(hostileMarker(test.members), 1, args[len(args)-1])
				}
				return handle(args)
			})
			log := &lines{}
			n := open(t, f.url(), node.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
			log.node = n
			r := do(t, n, acquire("k", "o:1"))
			if err := r.Err; err != nil {
				wantPlain("the error", err.Error())
				if failed := (*node.Error)(nil); !errors.As(err, &failed) || !failed.Permanent() {
					t.Errorf("%v does not report that it is permanent", err)
				}
			}
			report, err := operator.Check(t.Context(), n)
			if err != nil {
				wantPlain("the error of Check", err.Error())
			} else if test.want == nil {
				t.Error("no error of Check")
			} else {
				wantPlain("a list of the report", fmt.Sprint(scripts.NewList(report.Members...)))
			}
			testkit.Eventually(t, "logged", func() bool { return log.logged() > 0 })
			log.mu.Lock()
			defer log.mu.Unlock()
			for _, line := range log.all {
				wantPlain("a line of the log", strings.TrimSpace(line))
			}
		})
	}
}

func hostileMarker(members []string) string {
	return scripts.Marker{Process: fakeProcess, Generation: 1, Members: scripts.NewList(members...), Next: scripts.NewList()}.String()
}
