package quorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/fakeredis"
	"github.com/quorumlock/quorumlock/internal/quorate"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum/internal/engine"
	"github.com/quorumlock/quorumlock/quorum/internal/lease"
)

// lockerWithout returns a Locker whose nodes cannot connect, each for its reason, and so have no names.
func lockerWithout(t *testing.T, reasons ...error) *Locker {
	t.Helper()
	var nodes []*node.Node
	for _, reason := range reasons {
		n := testkit.Opened(node.New(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, reason }}))(t)
		nodes = append(nodes, n)
	}
	return testkit.Opened(New(nodes, Majority))(t)
}

// Each reason why an attempt fails has an error and an outcome of its own, and each cause with which a lock is lost a text.
func TestEachReasonIsAnOutcome(t *testing.T) {
	var names []string
	var errs []error
	for kind := range engine.Kind(engine.Kinds) {
		reason, isReason := sentinels[kind], kind != engine.Failed && kind != engine.Acquired && kind != engine.Canceled
		if kind.String() == "" || slices.Contains(names, kind.String()) || (reason != nil) != isReason || isReason && slices.Contains(errs, reason) {
			t.Errorf("kind %d has no error or no name of its own: see sentinels in attempt.go, AttemptEvent's comment, "+
				"docs/usage.md#errors", kind)
		}
		names, errs = append(names, kind.String()), append(errs, reason)
	}
	for o, cause := (&observer{set: new(settings)}), lease.MaxHoldOver; cause < lease.Causes; cause++ {
		testkit.Check(t, o.whyLost(cause) != o.whyLost(lease.NoCause),
			"cause %d has no text: see whyLost in observe.go", cause)
	}
}

// Each answer that an error counts is in its text, in its number of nodes, and in an AttemptEvent.
func TestEachAnswerIsTold(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Error]()) {
		if !field.IsExported() || field.Type.Kind() != reflect.Int || field.Name == "Quorum" {
			continue
		}
		e := &Error{Op: "lock", Answers: Answers{Quorum: 2}}
		reflect.ValueOf(e).Elem().FieldByIndex(field.Index).SetInt(7)
		_, told := reflect.TypeFor[AttemptEvent]().FieldByName(field.Name)
		if e.nodes() != 7 || !strings.Contains(e.Error(), "7 ") || !told {
			t.Errorf("%d nodes are %s, in an AttemptEvent: %v; %v: see Error, nodes, counts in attempt.go, attempted in hooks.go",
				e.nodes(), field.Name, told, e)
		}
	}
}

// A program that tries again in a loop can see when that cannot succeed. One node with such an error is not enough,
// and temporary errors do not count.
func TestPermanentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong, gone := redis.Error("WRONGPASS invalid username-password pair"), errors.New("no route")
		l := lockerWithout(t, wrong, wrong, gone)
		for _, err := range []error{errorOf(l.Lock(t.Context(), "a")), errorOf(l.TryLock(t.Context(), "a"))} {
			wantError(t, err, ErrPermanent, ErrUnavailable, "WRONGPASS")
			testkit.Equal(t, strings.Count(err.Error(), ErrPermanent.Error()), 1, err)
		}
		_, err := lockerWithout(t, wrong, gone, gone).TryLock(t.Context(), "a")
		testkit.Check(t, err != nil && !errors.Is(err, ErrPermanent), "a wrong password for one of three: %v", err)
		_, mixed := l.Lock(t.Context())
		_, bad := l.With(nil).Lock(t.Context(), "a")
		l.Close()
		_, closed := l.Lock(t.Context(), "a")
		for what, err := range map[string]error{"no names": mixed, "a nil option": bad, "closed": closed} {
			wantError(t, err, ErrPermanent, not{ErrPermanent.Error()}, of{what})
			testkit.Check(t, !errors.As(err, new(*multierror.Error)), "%s: it wraps errors of nodes", what)
		}
	})
	// What ended a lock says nothing of the next one, nor does an Unlock that one node refuses.
	refusing := multierror.Append(nil, &node.Error{Err: node.ErrReplica}, &node.Error{Err: node.ErrInvalid})
	reason := &Error{Answers: Answers{Quorum: 2, Unknown: 2, Granted: 1, kept: true, Nodes: refusing}, causes: []error{ErrLost}}
	unlock := &Error{Op: "unlock", Answers: Answers{Nodes: multierror.Append(nil, &node.Error{Err: node.ErrReplica})}}
	for _, err := range []error{reason, &Error{Op: "unlock", causes: []error{reason}}, unlock} {
		wantError(t, err, not{ErrPermanent}, not{ErrPermanent.Error()}) // the end of a lock
	}
}

func TestRemainingByTheAnswers(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		answers []lease.Answer
		waits   []time.Duration
		want    time.Duration
	}{
		{[]lease.Answer{lease.Refused, lease.Refused, lease.Unanswered}, []time.Duration{2 * s, 5 * s, 0}, 5 * s},
		{[]lease.Answer{lease.Refused, lease.Refused, lease.Refused}, []time.Duration{9 * s, 5 * s, 2 * s}, 5 * s}, // one node keeps a leftover
		{[]lease.Answer{lease.Granted, lease.Refused, lease.Refused}, []time.Duration{0, 5 * s, 7 * s}, 5 * s},
		{[]lease.Answer{lease.Unanswered, lease.Refused, lease.Unanswered}, []time.Duration{0, 5 * s, 0}, 5 * s}, // the probe node
		{[]lease.Answer{lease.Refused, lease.Refused, lease.Unanswered}, []time.Duration{-1, 5 * s, 0}, -1},
		{[]lease.Answer{lease.Refused, lease.Refused, lease.Refused}, []time.Duration{-1, 5 * s, 3 * s}, 5 * s},
		{[]lease.Answer{lease.Quarantined, lease.Failed, lease.Unanswered}, []time.Duration{5 * s, 0, 0}, 0},
	} {
		o := engine.Outcome{Quorum: quorate.Majority(3)}
		for i, is := range c.answers {
			o.Nodes = append(o.Nodes, engine.NodeAnswer{Is: is, Wait: c.waits[i]})
		}
		got := o.Remaining()
		testkit.Check(t, got == c.want, "%v, %v: %v, want %v", c.answers, c.waits, got, c.want)
	}
	forever := &Error{Answers: Answers{Quorum: 2, Refused: 2}, HeldBy: HeldBy{Remaining: -1}}
	text := forever.Error()
	testkit.Check(t, strings.Contains(text, "held, never expires"), "%v", text)
}

// An attempt's error may be several waiters': none of them changes it.
func TestAnErrorOfOneWaiterIsNoOthers(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		attempt := &Error{Op: "lock", causes: []error{ErrNotAcquired, ErrHeld}, split: true}
		wantError(t, c.process().newCall(t.Context(), []string{"a"}).errorOf(attempt, nil), not{ErrHeld})
		wantError(t, attempt, ErrHeld)
	})
}

// A nil option, node or rule is refused wherever one is taken.
func TestNilOptions(t *testing.T) {
	l := lockerWithout(t, errors.New("none"))
	for what, open := range map[string]func() error{
		"Open":           func() error { _, err := Open([]string{"redis://127.0.0.1:1"}, Majority, nil); return err },
		"New":            func() error { _, err := New(l.engine.Nodes, Majority, nil); return err },
		"With, Lock":     func() error { _, err := l.With(nil).Lock(t.Context(), "a"); return err },
		"With, TryLock":  func() error { _, err := l.With(nil).TryLock(t.Context(), "a"); return err },
		"With, Do":       func() error { return l.With(nil).Do(t.Context(), nil, "a") },
		"With, operator": func() error { return insideLocker{l.With(nil)}.Refuse("inspect", []string{"a"}) },
		"With of With":   func() error { return l.With(nil).With().Do(t.Context(), nil, "a") },
		"WithNodeOptions": func() error {
			_, err := Open([]string{"redis://127.0.0.1:1"}, Majority, WithNodeOptions(nil))
			return err
		},
		"node.Open":            func() error { _, err := node.Open("redis://127.0.0.1:1", nil); return err },
		"node.New":             func() error { _, err := node.New(&redis.Pool{}, nil); return err },
		"a node":               func() error { _, err := New([]*node.Node{nil}, Majority); return err },
		"a rule":               func() error { _, err := New(l.engine.Nodes, nil); return err },
		"a clock":              func() error { return errorOf(New(l.engine.Nodes, Majority, withClock(nil))) },
		"a source":             func() error { return errorOf(New(l.engine.Nodes, Majority, withRand(nil))) },
		"a logger":             func() error { _, err := New(l.engine.Nodes, Majority, WithLogger(nil)); return err },
		"a logger of the node": func() error { _, err := node.New(&redis.Pool{}, node.WithLogger(nil)); return err },
	} {
		wantError(t, open(), ErrInvalid, "nil", of{what})
	}
}

var uuid4 = regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

func TestWhoTheLockerIs(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, other := c.process(), c.process()
		got, want := l.Nodes(), []string{"master0", "master1", "master2"}
		testkit.Check(t, slices.Equal(got, want), "the nodes are %q", got)
		names := []string{"a"}
		held := c.lock(l, names...)
		names[0] = "b"
		testkit.Equal(t, held.Names()[0], "a", "a name that its caller has changed since")
		testkit.Check(t, uuid4.MatchString(l.ID()), "its id is %s", l.ID())
		testkit.Check(t, strings.HasPrefix(held.Owner(), l.ID()+":") && l.With().ID() == l.ID() && other.ID() != l.ID(),
			"the owner of %q is %q, another's id %q", l.ID(), held.Owner(), other.ID())
		c.unlock(held)
	})
}

// An error that several nodes have in common appears once, without the details of Redis's scripts.
func TestErrorsSayOnceWhatNodesHaveInCommon(t *testing.T) {
	differs := &node.Error{Node: "a", Op: "acquire", Err: ErrMembership}
	other := &node.Error{Node: "b", Op: "acquire", Err: redis.Error(
		"NOPERM this user has no permissions script: 0123456789abcdef0123456789abcdef01234567, on @user_script:12.")}
	again := &node.Error{Node: "c", Op: "acquire", Err: ErrMembership}
	e := &Error{Op: "lock", causes: []error{ErrNotAcquired, ErrUnavailable},
		Answers: Answers{Quorum: 2, Unknown: 3, Nodes: multierror.Append(nil, differs, other, again)}}
	want := "quorumlock: lock: not acquired: masters do not accept this client's list: not retryable (0 granted of 2 needed, 2 with another list, 1 unknown): " +
		"nodes a, c: acquire: the lists of masters differ; node b: acquire: NOPERM this user has no permissions"
	testkit.Check(t, e.Error() == want, "it says\n%s, want\n%s", e, want)
	testkit.Equal(t, strings.Count(e.Error(), "lists of masters"), 1, "times that it is said")
}

// Masters that answered with another list are not called unknown, nor unavailable if they are the whole
// reason.
func TestErrorOfMastersWithAnotherList(t *testing.T) {
	other := func(name string) error {
		return &node.Error{Node: name, Op: "acquire", Err: fmt.Errorf("%w: {a, b}", ErrMembership)}
	}
	down := &node.Error{Node: "c", Op: "connect", Err: node.ErrDown}
	for want, nodes := range map[string][]error{
		"not acquired: masters do not accept this client's list: not retryable (0 granted of 2 needed, 2 with another list, 1 unknown)": {other("a"), other("b"), down},
		"not acquired: nodes unavailable (0 granted of 2 needed, 1 with another list, 2 unknown)":                                       {other("a"), down},
		"not acquired: nodes unavailable (0 granted of 2 needed, 3 unknown)":                                                            {down},
	} {
		err := &Error{Op: "lock", causes: []error{ErrNotAcquired, ErrUnavailable},
			Answers: Answers{Quorum: 2, Unknown: 3, Nodes: &multierror.Error{Errors: nodes}}}
		got := err.Error()
		testkit.Check(t, strings.Contains(got, want) && errors.Is(err, ErrUnavailable), "%s\nwant %s", got, want)
	}
}

// A locker, a lock and Stats print something meaningful.
func TestValuesPrintAsValues(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		testkit.Equal(t, fmt.Sprint(l), "locker over master0, master1, master2", "it prints as")
		held := c.lock(l, "a b")
		want := fmt.Sprintf("lock \"a b\", token %d, owner %s", held.Token(), held.Owner())
		testkit.Equal(t, fmt.Sprint(held), want, "it is")
		var logged bytes.Buffer
		reader, slot := c.got(l.RWLock("b").RLock(t.Context())), c.got(NewSemaphore(l, "s", 1).Acquire(t.Context()))
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("held", "lock", held, "reader", reader, "slot", slot)
		attrs := fmt.Sprintf(`"lock":{"names":["a b"],"token":%d,"owner":"%s"},"reader":{"names":["b"],"shared":true,"token":`, held.Token(), held.Owner())
		for _, want := range []string{attrs, `"slot":{"names":["s"],"slots":[0],"token":`} {
			testkit.Check(t, strings.Contains(logged.String(), want), "%s, want %s", &logged, want)
		}
		stats, err := json.Marshal(l.Stats())
		testkit.Check(t, err == nil && bytes.Contains(stats, []byte(`"acquired":3`)) && bytes.Contains(stats, []byte(`"State":"up"`)), "%s, %v", stats, err)
	})
}

// Do says once that its lock was lost, even if fn returns the cause of its context. It adds it to the error of work that does not
// say so.
func TestDoTellsALossOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l, own := c.process(), errors.New("the work's own error")
		for _, says := range []func(cause error) error{
			func(cause error) error { return cause },
			func(cause error) error { return errors.Join(own, cause) },
			func(error) error { return own },
		} {
			err := l.Do(t.Context(), func(ctx context.Context, _ *Lock) error {
				crashAll(c)
				<-ctx.Done()
				return says(context.Cause(ctx))
			}, "a")
			wantError(t, err, ErrLost)
			testkit.Equal(t, errors.Is(err, own), errors.Is(says(nil), own), err)
			testkit.Equal(t, strings.Count(err.Error(), ": lost"), 1, err)
			testkit.Check(t, says(nil) != own || !strings.Contains(err.Error(), "\n"), "%v", err)
			startAll(c, 5*time.Second)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		for _, says := range []error{nil, ErrReleased} { // of another lock, which tells nothing of this one
			err := l.Do(t.Context(), func(context.Context, *Lock) error { crashAll(c); return says }, "a")
			wantError(t, err, ErrUnavailable, not{"%"})
			testkit.Check(t, says == nil || errors.Is(err, says), "%v, want %v, too", err, says)
			startAll(c, 5*time.Second)
		}
	})
}

func TestRules(t *testing.T) {
	for nodes := -1; nodes <= 9; nodes++ {
		need, err := All(nodes)
		if ok := nodes >= 1; ok != (err == nil) || ok && need != nodes || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("All(%d) = %d, %v", nodes, need, err)
		}
		need, err = Majority(nodes)
		ok := nodes >= 1 && nodes%2 == 1
		testkit.Check(t, ok == (err == nil) && (!ok || need == nodes/2+1) && (ok || errors.Is(err, ErrInvalid)),
			"Majority(%d) = %d, %v", nodes, need, err)
	}
}

// A rule of the program's own is refused with ErrInvalid and a reason, whatever it returns.
func TestRulesThatAreRefused(t *testing.T) {
	for want, rule := range map[string]Rule{
		"0 of 0 nodes":                   func(int) (int, error) { return 0, nil },
		"1 of 0 nodes":                   func(int) (int, error) { return 1, nil },
		"odd":                            func(int) (int, error) { return 0, errors.New("odd") },
		"a lock needs at least one node": Majority,
	} {
		_, err := New(nil, rule)
		testkit.Check(t, errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "%"), "%s: %v", want, err)
	}
	need, err := quorumSize(func(int) (int, error) { return 2, errors.New("never") }, 3)
	testkit.Check(t, need == 0 && errors.Is(err, ErrInvalid), "a number of a rule that refuses each: %d, %v", need, err)
	wantError(t, errorOf(New(make([]*node.Node, 65), All)), ErrInvalid, "65 nodes are more than 64")
	brief := testkit.Opened(node.New(&redis.Pool{}, node.WithMaxLease(time.Second)))(t)
	usual := testkit.Opened(node.New(&redis.Pool{}))(t)
	wantError(t, errorOf(New([]*node.Node{brief, usual}, All)), ErrInvalid, "the max lease of node pool is 30s")
	l := testkit.Opened(New([]*node.Node{brief}, All))(t)
	testkit.Equal(t, l.set.terms.Lease, time.Second, "the default lease, of a node with a shorter max lease")
}

// logLines counts the lines that are logged.
type logLines struct{ child.Printed }

func (l *logLines) count(words string) int { return strings.Count(l.String(), words) }

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// setDefault makes a log the default logger until the test ends.
func (l *logLines) setDefault(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(l.logger())
	t.Cleanup(func() { slog.SetDefault(before) })
}

func crash(masters []*fakeredis.Master, keep fakeredis.Memory) {
	for _, m := range masters {
		m.Crash(keep)
	}
}

func flush(masters ...*fakeredis.Master) {
	for _, m := range masters {
		m.Flush()
	}
}

func crashAll(c *cluster) { crash(c.Masters, fakeredis.Nothing) }

func startAll(c *cluster, wait time.Duration) {
	for _, m := range c.Masters {
		m.Start()
	}
	time.Sleep(wait) // until probes find that the nodes answer again
}

// Without a logger of its own a Locker uses the default one, even if that is set later. What no
// error reports is logged: masters that are dead, a lock that is lost.
func TestTheDefaultLogger(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		l := c.process()
		quiet := c.process(WithLogger(slog.New(slog.DiscardHandler)))
		log := &logLines{}
		log.setDefault(t)
		c.lock(quiet, "b")
		held := c.lock(l, "a")
		crashAll(c)
		<-held.Context().Done()
		synctest.Wait()
		testkit.Equal(t, log.count("quorumlock: lock lost"), 1, "lines about the loss")
		ctx := testkit.Within(t, time.Second)
		wantError(t, errorOf(l.Lock(ctx, "a")), ErrUnavailable)
		testkit.Equal(t, log.count(`level=WARN msg="quorumlock: waiting for nodes"`), 1, "lines about the waiting")
		startAll(c, 5*time.Second)
	})
}
