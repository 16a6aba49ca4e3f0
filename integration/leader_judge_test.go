package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/poll"
)

// validity is one report of a leader: at an instant of contender.Now its term was valid.
type validity struct {
	ID     string
	Token  uint64
	Called int64 // the campaign began at that instant, or later
	At     int64 // read before Term.Valid was asked, so a pause between the two cannot make the term look longer
}

// observedTerm is a term as far as it was reported: it was valid from first to last.
type observedTerm struct {
	client      int
	id          string
	token       uint64
	called      int64
	first, last int64
}

// death is the instant at which a leader was killed, frozen, cut off or told to resign.
type death struct {
	how     string
	id      string
	at      int64
	stalled time.Duration // for how long the machine stood still until another led
}

// elections collects the terms and deaths of one test. It is safe for concurrent use.
type elections struct {
	mu     sync.Mutex
	terms  map[string]*observedTerm
	deaths []death
}

func (e *elections) add(client int, v validity) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.terms == nil {
		e.terms = map[string]*observedTerm{}
	}
	t := e.terms[v.ID]
	if t == nil {
		t = &observedTerm{client, v.ID, v.Token, v.Called, v.At, v.At}
		e.terms[v.ID] = t
	}
	t.last = max(t.last, v.At)
}

// dies records that something is about to happen to a leader.
func (e *elections) dies(t observedTerm, how string, stalls *poll.Stopwatch) death {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, before := stalls.Read()
	d := death{how, t.id, contender.Now(), -before}
	e.deaths = append(e.deaths, d)
	return d
}

// outlived records for how long the machine stood still from a death until another led.
func (e *elections) outlived(d death, stalls *poll.Stopwatch) {
	_, after := stalls.Read()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.deaths {
		if e.deaths[i].at == d.at {
			e.deaths[i].stalled += after
		}
	}
}

// valid returns the term that was reported last, if that was a moment ago.
func (e *elections) valid() (observedTerm, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var latest observedTerm
	for _, t := range e.terms {
		if t.last > latest.last {
			latest = *t
		}
	}
	return latest, time.Duration(contender.Now()-latest.last) < 50*time.Millisecond
}

// gap returns how long after a death another term was valid; false for never.
func (e *elections) gap(d death) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := int64(-1)
	for _, t := range e.terms {
		if begins := max(t.first, d.at); t.id != d.id && t.last >= d.at && (next < 0 || begins < next) {
			next = begins
		}
	}
	return time.Duration(next - d.at), next >= 0
}

// judge returns what is wrong: two terms valid at one time, tokens that do not rise, and no leader
// within the bound after the last one died. It also returns the longest time without a leader.
func (e *elections) judge(bound time.Duration) (wrong []string, longest time.Duration) {
	var events []history.Event
	e.mu.Lock()
	for _, t := range e.terms {
		events = append(events, history.Event{Client: t.client, Name: "leader", Owner: t.id, Level: 1,
			Kind: history.Acquired, Token: t.token, Call: t.called, Return: t.first, Deadline: t.last})
	}
	deaths := slices.Clone(e.deaths)
	e.mu.Unlock()
	for _, v := range history.Check(events, history.Options{HonestClocks: true}) {
		wrong = append(wrong, v.String())
	}
	for _, d := range deaths {
		gap, ok := e.gap(d)
		if longest = max(longest, gap); !ok || gap > poll.AtMost(bound, d.stalled) {
			wrong = append(wrong, fmt.Sprintf("late: %s was %s, and the next leader came after %v (ever: %v)",
				d.id, d.how, gap, ok))
		}
	}
	return wrong, longest
}

// The judge of elections notices each kind of fault, and nothing if there is none.
func TestJudgeOfElections(t *testing.T) {
	ms := func(n int) int64 { return int64(n) * int64(time.Millisecond) }
	a := observedTerm{1, "a:1", 10, ms(0), ms(10), ms(100)}
	b := func(token uint64, called, first int) []observedTerm {
		return []observedTerm{a, {2, "b:1", token, ms(called), ms(first), ms(200)}}
	}
	dies := func(at int) []death { return []death{{"killed", "a:1", ms(at), 0}} }
	for what, test := range map[string]struct {
		terms  []observedTerm
		deaths []death
		want   string // the rule; "" for nothing wrong
	}{
		"one after the other":    {b(11, 20, 110), dies(90), ""},
		"another leads already":  {b(11, 20, 110), dies(150), ""},
		"two at one time":        {b(11, 20, 99), nil, "overlap"},
		"one within another's":   {[]observedTerm{a, {2, "b:1", 11, ms(20), ms(50), ms(60)}}, nil, "overlap"},
		"a token that falls":     {b(9, 105, 110), nil, "token"},
		"so, of a long campaign": {b(9, 5, 110), nil, "porcupine"},
		"a token twice":          {b(10, 20, 110), nil, "token"},
		"no leader for too long": {b(11, 20, 191), dies(90), "late"},
		"no leader ever again":   {[]observedTerm{a}, dies(90), "late"},
	} {
		e := &elections{deaths: test.deaths, terms: map[string]*observedTerm{}}
		for _, term := range test.terms {
			e.terms[term.id] = &term
		}
		wrong, _ := e.judge(100 * time.Millisecond)
		noticed := slices.ContainsFunc(wrong, func(w string) bool { return strings.HasPrefix(w, test.want+":") })
		if test.want == "" && len(wrong) > 0 || test.want != "" && !noticed {
			t.Errorf("%s: the judge says %q, want %q", what, wrong, test.want)
		}
	}
}
