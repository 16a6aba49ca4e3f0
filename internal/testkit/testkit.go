// Package testkit has the few steps that tests of many packages share. What a test asserts stays in
// the test.
package testkit

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/scripts"
)

// Bound is for events that should be immediate. No busy machine exceeds it.
const Bound = 10 * time.Second

// Main runs a package's tests without the default logger, to which nodes log what tests do to their masters, and
// fails them for goroutines that they leave.
func Main(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Got returns a function that ends the test on the call's error, and else returns its value: Got(os.ReadFile(path))(t).
func Got[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return value
	}
}

// ErrorOf is the error of a call, whatever else it returns.
func ErrorOf(_ any, err error) error { return err }

// Opened is Got for what the end of the test closes.
func Opened[T io.Closer](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		t.Cleanup(func() { Is(t, value.Close(), nil, "Close") })
		return value
	}
}

// Within is the test's context, for so long at most.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Check fails the test unless a claim is true.
func Check(t testing.TB, claim bool, format string, args ...any) {
	t.Helper()
	if !claim {
		t.Errorf(format, args...)
	}
}

// Require ends the test unless a claim is true.
func Require(t testing.TB, claim bool, format string, args ...any) {
	t.Helper()
	if !claim {
		t.Fatalf(format, args...)
	}
}

// Equal fails the test unless two values are equal. what says what they are, or of which case.
func Equal[T comparable](t testing.TB, got, want T, what any) {
	t.Helper()
	if got != want {
		t.Errorf("%+v: %v, want %v", what, got, want)
	}
}

// Is fails the test unless an error wraps the target. what says what was done.
func Is(t testing.TB, err, target error, what any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%+v: %v, want %v", what, err, target)
	}
}

// Eventually waits until the condition holds, and ends the test if it does not within Bound.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(Bound, holds) {
		t.Fatalf("not within %v: %s", Bound, what)
	}
}

// Read returns the text of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	Must(t, err)
	return string(text)
}

// Race reports whether the tests were built with the race detector.
func Race() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Exit runs a command, and returns its exit code and what it printed.
func Exit(t testing.TB, cmd *exec.Cmd) (code int, printed string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// Real starts n server processes that end with the test. It skips the test without a server.
func Real(t testing.TB, n int, args ...string) *redistest.Fleet {
	t.Helper()
	fleet, err := redistest.StartReal(n, args...)
	if errors.Is(err, redistest.ErrNoServer) {
		t.Skipf("needs real servers: %v", err)
	}
	Must(t, err)
	t.Cleanup(func() { Must(t, fleet.Stop()) })
	return fleet
}

// TLS starts a server with a certificate for that host, or skips the test. It asks its clients for one,
// unless args say otherwise. dir has the files of package redistest.
func TLS(t testing.TB, host string, args ...string) (m *redistest.Master, dir, port string, roots *x509.CertPool) {
	t.Helper()
	authority, err := redistest.NewAuthority()
	Must(t, err)
	m, dir, port = TLSBy(t, authority, host, args...)
	return m, dir, port, redistest.Roots(authority)
}

// TLSBy is [TLS] with a certificate by that authority.
func TLSBy(t testing.TB, by *redistest.Authority, host string, args ...string) (m *redistest.Master, dir, port string) {
	t.Helper()
	redistest.Need(t, redistest.TLS)
	dir = t.TempDir()
	Must(t, by.Issue(dir, host))
	Must(t, redistest.WriteRoots(dir, by))
	fleet, port, err := redistest.StartTLS(dir, args...)
	Must(t, err)
	t.Cleanup(func() { Must(t, fleet.Stop()) })
	return fleet.Masters[0], dir, port
}

// Doer runs commands: a *[redistest.Master] is one.
type Doer interface {
	Do(args ...any) (any, error)
}

// Do returns the reply to a command.
func Do(t testing.TB, on Doer, args ...any) any {
	t.Helper()
	reply, err := on.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Locks returns the keys of locks and of semaphores' slots.
func Locks(on Doer) ([]string, error) {
	keys, err := redis.Strings(on.Do("KEYS", "*"))
	return slices.DeleteFunc(keys, func(key string) bool {
		_, _, isSlot := scripts.ParseSlot(key)
		return !isSlot && strings.HasPrefix(key, scripts.Prefix)
	}), err
}

// Info returns a field of a section of INFO.
func Info(t testing.TB, on Doer, section, field string) string {
	t.Helper()
	text, err := redis.String(on.Do("INFO", section))
	Must(t, err)
	return Field(t, text, field)
}

// Field returns a field of what INFO replied.
func Field(t testing.TB, info, field string) string {
	t.Helper()
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return value
		}
	}
	t.Fatalf("no %s in INFO:\n%s", field, info)
	return ""
}

// Pipe returns a connection in memory to what serve serves.
func Pipe(serve func(net.Conn)) redis.Conn {
	ours, theirs := net.Pipe()
	go serve(theirs)
	return redis.NewConn(ours, Bound, Bound)
}

// Names makes names of texts.
func Names(texts ...string) []scripts.Name {
	list := make([]scripts.Name, len(texts))
	for i, text := range texts {
		list[i] = scripts.NewName(text)
	}
	return list
}

// Short returns a duration without zeros at its end: 30s, 2m, 1h.
func Short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// EachOutcome calls f with every combination of n answers, which are numbers below base.
func EachOutcome(n, base int, f func(outcome []int)) {
	outcome := make([]int, n)
	for {
		f(outcome)
		i := 0
		for ; i < n; i++ {
			if outcome[i]++; outcome[i] < base {
				break
			}
			outcome[i] = 0
		}
		if i == n {
			return
		}
	}
}

// Returns reports whether a call returns that locks a mutex for a moment. In a bubble time stands still while it waits,
// so the bound is a count.
func Returns(call func()) bool {
	returned := make(chan struct{})
	go func() {
		call()
		close(returned)
	}()
	for range 1_000_000 {
		select {
		case <-returned:
			return true
		default:
			runtime.Gosched()
		}
	}
	return false
}
