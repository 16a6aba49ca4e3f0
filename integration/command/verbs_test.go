//go:build unix

package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/rogpeppe/go-internal/testscript"
)

// secret is a password that no output may have.
const secret = "pw-never-shown"

// world is what a script has.
type world struct {
	*testscript.TestScript // the script, and what its last command printed
	t                      testing.TB
	neg                    bool                         // the line begins with "!"
	masters                map[string]*redistest.Master // by the names in their URLs
	jobs                   map[string]*job
	code                   int // of the last quorumlock
}

type worldKey struct{}

type verb func(w *world, args []string)

var verbs = map[string]verb{
	"masters": (*world).startMasters, "standins": (*world).startStandins, "deploy": (*world).deploy,
	"tls": (*world).tls, "clock": (*world).clock, "marker": (*world).marker,
	"listed": (*world).listed, "asked": (*world).asked,
	"crash": each((*redistest.Master).Kill), "start": each((*redistest.Master).Start),
	"freeze": each((*redistest.Master).Freeze), "thaw": each((*redistest.Master).Thaw),
	"redis": (*world).redis, "await": (*world).await,

	"quorumlock": (*world).quorumlock, "exits": (*world).exits, "says": (*world).says, "usage": (*world).usage,
	"until": (*world).until, "code": (*world).wantCode, "out": has("stdout"), "err": has("stderr"),
	"capture": (*world).capture, "output": (*world).output,

	"hold": (*world).hold, "job": (*world).job, "killed": (*world).killed, "prints": (*world).prints,
	"signal": (*world).signal, "ended": (*world).ended,

	"accepts": (*world).accepts, "refuses": (*world).refuses, "stuck": (*world).stuck, "in-use": (*world).inUse,
	"document": (*world).document, "documented": (*world).documented,
}

// quorumlock ARGS...: the command ends with 0, and prints no secret. It waits patiently for masters unless the line has a
// -timeout, and has the -max-lease of the variable MAX_LEASE. run prints one line of errors at most, beside what it says of
// waiting and of an owner file.
func (w *world) quorumlock(args []string) {
	w.exits(append([]string{"0"}, args...))
}

// exits CODE ARGS...: as quorumlock, and it ends with that code.
func (w *world) exits(args []string) {
	w.call(w.patiently(args[1:]))
	w.wantCode(args[:1])
}

// patiently adds flags to a line that asks masters.
func (w *world) patiently(args []string) []string {
	at, timeout := 1, "10s"
	switch {
	case len(args) == 0 || slices.Contains(args, "-h"):
		return args
	case args[0] == "members" && len(args) > 1:
		at = 2
	case args[0] == "run":
		timeout = "6s"
	case !slices.Contains([]string{"check", "admit", "status", "top", "unlock"}, args[0]):
		return args
	}
	var flags []string
	given := args
	if job := slices.Index(args, "--"); job >= 0 {
		given = args[:job]
	}
	if !slices.Contains(given, "-timeout") {
		flags = append(flags, "-timeout", timeout)
	}
	if lease := w.Getenv("MAX_LEASE"); lease != "" && !slices.Contains(given, "-max-lease") {
		flags = append(flags, "-max-lease", lease)
	}
	return slices.Insert(slices.Clone(args), at, flags...)
}

// call runs the command, again if its marks came too late because the machine stood still.
func (w *world) call(args []string) {
	for range 20 {
		w.code = 0
		err := w.Exec("quorumlock", args...)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			w.code, err = exit.ExitCode(), nil
		}
		w.Check(err)
		if !strings.Contains(w.ReadFile("stderr"), "the marks come too late") {
			break
		}
	}
	w.check(args, w.ReadFile("stdout"), w.ReadFile("stderr"))
}

// check fails the script for what no command may print.
func (w *world) check(args []string, stdout, stderr string) {
	if strings.Contains(stdout+stderr, "never-shown") && !strings.Contains(strings.Join(args, " "), " -- ") {
		w.Fatalf("a password was printed")
	}
	if len(args) == 0 || args[0] != "run" {
		return
	}
	lines := 0
	for line := range strings.Lines(stderr) {
		said, is := strings.CutPrefix(line, "quorumlock: run: ")
		if !is {
			w.Fatalf("run printed a line that does not say what it is of: %q", line)
		}
		if !strings.HasPrefix(said, "waiting for masters: ") && !strings.HasPrefix(said, "the lock of the owner in") &&
			!strings.HasPrefix(said, "released the lock of") && !strings.HasPrefix(said, "the masters that answer have no lock of") {
			lines++
		}
	}
	if lines > 1 {
		w.Fatalf("run printed %d lines of errors", lines)
	}
}

// says CODE TEXT... : ARGS...: as exits, and it prints the texts. One that begins with / is a pattern.
func (w *world) says(args []string) {
	at := slices.Index(args, ":")
	w.exits(append(args[:1:1], args[at+1:]...))
	w.has(w.ReadFile("stdout")+w.ReadFile("stderr"), args[1:at])
}

func (w *world) has(printed string, texts []string) {
	for _, text := range texts {
		pattern, is := strings.CutPrefix(text, "/")
		if is && !regexp.MustCompile(`(?m)`+pattern).MatchString(printed) || !is && !strings.Contains(printed, text) {
			w.Fatalf("no %q", text)
		}
	}
}

// code N: the exit code of the last quorumlock, also by until, was N.
func (w *world) wantCode(args []string) {
	if fmt.Sprint(w.code) != args[0] {
		w.Fatalf("exit code %d, want %s", w.code, args[0])
	}
}

// out TEXT... and err TEXT...: stdout, or stderr, has the texts.
func has(stream string) verb {
	return func(w *world, args []string) { w.has(w.ReadFile(stream), args) }
}

var waiting = regexp.MustCompile(`(?m)^quorumlock: run: waiting for masters: .*\n`)

// usage CODE TEXT : ARGS...: the command refuses its line, by one line of errors that has the text and the page of help. A
// machine that stands still may have let it wait for masters before.
func (w *world) usage(args []string) {
	w.call(args[3:])
	errs := waiting.ReplaceAllString(w.ReadFile("stderr"), "")
	if fmt.Sprint(w.code) != args[0] || !strings.Contains(errs, args[1]) || strings.Count(errs, "\n") != 1 ||
		w.code == 64 != strings.Contains(errs, "(see quorumlock "+args[3]+" -h)") && w.code != 2 ||
		!strings.HasPrefix(errs, "quorumlock: ") || w.ReadFile("stdout") != "" {
		w.Fatalf("exit code %d, or not one line on stderr alone with %q", w.code, args[1])
	}
}

// [!] until PATTERN ARGS...: quorumlock is repeated until its stdout matches, or does not.
func (w *world) until(args []string) {
	pattern := regexp.MustCompile(`(?m)` + args[0])
	if !poll.Until(bound, func() bool {
		w.call(w.patiently(args[1:]))
		return pattern.MatchString(w.ReadFile("stdout")) != w.neg
	}) {
		w.Fatalf("waited %v", bound)
	}
}

// capture NAME PATTERN ...: the variable gets what the pattern's first group has in stdout or stderr.
func (w *world) capture(args []string) {
	for pair := range slices.Chunk(args, 2) {
		found := regexp.MustCompile(`(?m)` + pair[1]).FindStringSubmatch(w.ReadFile("stdout") + w.ReadFile("stderr"))
		if found == nil {
			w.Fatalf("no %s", pair[1])
		}
		w.Setenv(pair[0], found[1])
	}
}

var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDR"},
	{regexp.MustCompile(`\b[0-9a-f-]{32,36}:\d+`), "OWNER"},
	{regexp.MustCompile(`\bon \S+ \((\w+), pid \d+\)`), "on HOST ($1, pid PID)"},
	{regexp.MustCompile(`\b\d{16}\b`), "TOKEN"},
	{regexp.MustCompile(`[-+]?\b\d+(\.\d+)?(ms|µs|s|m|h)(\d+(\.\d+)?(ms|s|m))*\b`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b(valkey )?\d+\.\d+\.\d+\b`), "VERSION"},
	{regexp.MustCompile(`  +`), "  "}, // the columns
}

// output: stdout, and what cmp compares with it, has words in place of times, processes, ports and tokens.
func (w *world) output(args []string) {
	text := w.ReadFile("stdout")
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.mask)
	}
	fmt.Fprint(w.Stdout(), text)
}

// stuck STATE OUTLOOK TEXT: check, top and status say that nothing can be locked, and why; the first master is in that state.
func (w *world) stuck(args []string) {
	state, outlook, text := args[0], args[1], args[2]
	for _, try := range []struct {
		line string
		code int
		says []string
	}{
		{"check -urls-file urls", 1, []string{"\nN" + outlook, text}},
		{"top", 0, []string{"\n!  n" + outlook, text, state}},
		{"status free", -1, []string{"\nn" + outlook, "GRANTS NOTHING: ", text}},
	} {
		w.call(w.patiently(strings.Fields(try.line)))
		out := strings.ReplaceAll(w.ReadFile("stdout"), "\n    ", " ") // status wraps its lines
		for _, says := range try.says {
			if !strings.Contains(out, says) || try.code >= 0 && w.code != try.code {
				w.Fatalf("%s: exit code %d, or no %q", try.line, w.code, says)
			}
		}
		if try.code == 1 && !regexp.MustCompile(`(?m)^a +`+state).MatchString(out) {
			w.Fatalf("a is not %s", state)
		}
	}
}

// in-use FILE: neither run nor unlock uses the owner file, because who wrote it may be alive.
func (w *world) inUse(args []string) {
	file := args[0]
	for line, code := range map[string]int{
		"run -n -owner-file " + file + " other -- echo ran":      75,
		"run -w=1h -owner-file " + file + " other -- echo ran":   75,
		"run -n -E 0 -owner-file " + file + " other -- echo ran": 0,
		"unlock -yes -owner-file " + file:                        75,
	} {
		w.call(w.patiently(strings.Fields(line)))
		errs := w.ReadFile("stderr")
		if w.code != code || w.ReadFile("stdout") != "" || !strings.Contains(errs, file) ||
			!strings.Contains(errs, "it is in use: the run that wrote it, or a process of its job, is alive") {
			w.Fatalf("%s: exit code %d", line, w.code)
		}
	}
}

// lower makes one text of a reply.
func lower(reply any) string {
	switch reply := reply.(type) {
	case []byte:
		return string(bytes.TrimSpace(reply)) + "\n"
	case []any:
		var all string
		for _, part := range reply {
			all += lower(part)
		}
		return all
	}
	return fmt.Sprintln(reply)
}
