package scripts_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
	"github.com/quorumlock/quorumlock/scripts/operators"
	"github.com/quorumlock/quorumlock/scripts/semaphores"
)

// shown is a reply in words.
func (v table) shown(c sent, raw any, err error) string {
	v.t.Helper()
	if err != nil {
		return v.error(err, c.forbid != nil)
	}
	if c.shared == nil {
		r, err := c.call.Parse(raw)
		testkit.Must(v.t, err)
		return v.reply(c.call, r)
	}
	run, err := c.call.ParseRun(raw, len(c.shared))
	testkit.Must(v.t, err)
	var all []string
	for i, call := range c.shared {
		r, alone, err := run.Of(i, call)
		switch {
		case err != nil:
			all = append(all, v.error(err, c.forbid != nil))
		case alone:
			all = append(all, "alone")
		default:
			all = append(all, v.reply(call, r))
		}
	}
	return strings.Join(all, " / ")
}

// byScript is the command that a script says was refused: servers need not.
var byScript = regexp.MustCompile(` \(([A-Z]+)\)$`)

// error is what of an error does not depend on the server's version.
func (v table) error(err error, forbidden bool) string {
	v.t.Helper()
	var refused redis.Error
	if !errors.As(err, &refused) {
		v.t.Fatalf("%v", err)
	}
	text := string(refused)
	if _, own, ok := strings.Cut(text, "QUORUMLOCK "); ok {
		own, _, _ = strings.Cut(own, " script: ")
		return "error: " + own
	}
	switch {
	case strings.Contains(text, "WRONGTYPE") && !byScript.MatchString(text): // no command was refused to this user alone
		return "WRONGTYPE"
	case strings.Contains(text, "OOM"):
		return "OOM"
	case !forbidden || strings.Contains(text, "arguments"):
		return text
	}
	if named := byScript.FindStringSubmatch(text); named != nil {
		return "refused to " + named[1]
	}
	return "refused"
}

func (v table) reply(call scripts.Call, r scripts.Reply) string {
	v.t.Helper()
	switch call.Op() {
	case "acquire", "read":
		if r.NotAccepted != nil {
			return v.shownRefusal(r.NotAccepted)
		}
		return v.shownGrant(r.Acquire)
	case "renew":
		var all []string
		for _, letter := range r.Renew {
			all = append(all, map[scripts.Renewed]string{scripts.Kept: "kept", scripts.Gone: "gone", scripts.Taken: "taken",
				scripts.NotRenewed: "not renewed", scripts.NotRaised: "not raised"}[letter])
		}
		if r.NotAccepted != nil {
			all = append(all, v.shownRefusal(r.NotAccepted))
		}
		return strings.Join(all, ", ")
	case "release":
		return fmt.Sprintf("found %d", r.Release.Found) + also(r.Release.Heard != 0, "%d heard", r.Release.Heard)
	case "raise":
		return fmt.Sprint(r.Raise)
	case "force":
		return map[bool]string{true: "deleted", false: "nothing"}[r.Other.(bool)]
	case "inspect":
		return v.shownState(*r.Other.(*operators.InspectReply))
	case "look":
		v.isTime(r.Look.Now)
		return shownText(r.Look.Marker) + also(r.Look.Process != process, "of %v", r.Look.Process)
	case "mark":
		v.isTime(r.Mark.Now)
		return map[bool]string{true: "written", false: "not written"}[r.Mark.Written]
	case "who":
		var all []string
		for _, is := range r.Who {
			all = append(all, shownIdentity(is))
		}
		return strings.Join(all, ", ")
	case "introduce":
		return "done"
	}
	switch r := r.Other.(type) {
	case semaphores.Hint:
		return fmt.Sprint("free ", r.Free) + also(r.Wait != -1, "wait %s", rounded(r.Wait)) + also(r.Waiting != 0, "%d waiting", r.Waiting)
	case *operators.LockersReply:
		slices.SortFunc(r.Found, func(a, b operators.Introduced) int { return cmp.Compare(a.Locker, b.Locker) })
		all := []string{fmt.Sprint("cursor ", r.Cursor)}
		for _, l := range r.Found {
			all = append(all, l.Locker+" "+shownIdentity(l.Identity)+also(l.HasList(scripts.NewList("c", "b", "a")), "of a, b, c")+also(l.Left <= 0, "over"))
		}
		return strings.Join(all, ", ")
	case *operators.SurveyReply:
		slices.Sort(r.Names)
		for i := range r.Names {
			r.Names[i] = quoted(r.Names[i])
		}
		return fmt.Sprintf("cursor %s, names %v, waiting %v", r.Cursor, r.Names, r.Waiting)
	case []operators.Counter:
		var all []string
		for _, c := range r {
			all = append(all, fmt.Sprintf("%d: %s", c.Place, quoted(c.Text)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return fmt.Sprint(r.Other)
}

func shownIdentity(is scripts.Identity) string {
	if is == (scripts.Identity{}) {
		return "nobody"
	}
	text, _ := json.Marshal(is) // as in a state
	return string(text)
}

// also is one more part of a reply, if it has it.
func also(has bool, format string, args ...any) string {
	if !has {
		return ""
	}
	return ", " + fmt.Sprintf(format, args...)
}

func (v table) shownGrant(r scripts.AcquireReply) string {
	switch r.Outcome {
	case scripts.Granted:
		return fmt.Sprintf("granted %d", r.Token)
	case scripts.Quarantined:
		return "quarantined for " + rounded(r.Wait)
	case scripts.Barred:
		return "barred" + also(r.Wait != 0, "%v", r.Wait)
	case scripts.Passed:
		return "passed" + also(r.Wait != 0, "%v", r.Wait)
	}
	what := "held by " + wordFor(r.Holder)
	if r.Holder == "" {
		what = "reserved"
	}
	left := rounded(r.Wait)
	if r.Wait == -1 {
		left = "ever"
	}
	return what + " for " + left + also(r.Readers == 1, "a reader") + also(r.Readers > 1, "%d readers", r.Readers) +
		also(r.Waiting > 0, "%d waiting", r.Waiting)
}

// shownRefusal has the marker that refused the client, if it is not the one that is there.
func (v table) shownRefusal(r *scripts.Seen) string {
	there, _ := redis.String(v.s.Do("GET", marker))
	return "not accepted" + also(r.Marker == "", "no marker") + also(r.Marker != "" && r.Marker != there, "marker %q", r.Marker) +
		also(r.Process != process, "process %v", r.Process)
}

func (v table) shownState(r operators.InspectReply) string {
	v.t.Helper()
	v.isTime(r.Now)
	what := "free"
	switch {
	case r.Owner != "":
		what = "held by " + wordFor(r.Owner) + also(r.Depth != 1, "depth %d", r.Depth)
	case r.Readers > 0:
		what = fmt.Sprintf("%d readers", r.Readers)
	}
	switch {
	case r.TTL == -1:
		what += " for ever"
	case r.TTL > 0:
		what += " for " + rounded(r.TTL)
	}
	return what + also(r.Token != 0, "token %d", r.Token) + also(r.Reservation > 0, "a writer waits for %s", rounded(r.Reservation)) +
		also(r.Marker != "", "%s", shownText(r.Marker))
}

// shownText is a marker's text, if it is one.
func shownText(text string) string {
	if m, err := scripts.ParseMarker(text); err == nil {
		return shownMarker(m, 0)
	}
	return quoted(text)
}

// isTime checks that a reply has a server's time.
func (v table) isTime(now time.Duration) {
	v.t.Helper()
	if year := 365 * 24 * time.Hour; now < 50*year || now > 200*year {
		v.t.Fatalf("the server's time is %v", now)
	}
}
