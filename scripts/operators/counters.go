package operators

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/scripts"
)

// counterBatch is how many counters one call reads or raises.
const counterBatch = 1024

// maxPassed is the highest counter that is copied to other nodes: it leaves room for 2^40 locks.
const maxPassed = scripts.MaxToken - 1<<40

// Counters is token counters by their numbers; 0 for none.
type Counters [scripts.TokenCounters]uint64

// ReadCounters returns the calls that read all token counters of a node. The caller must not change
// them.
var ReadCounters = sync.OnceValue(func() (calls []scripts.Call) {
	for first := 0; first < scripts.TokenCounters; first += counterBatch {
		calls = append(calls, countersScript.Call(0, scripts.CounterPrefix, first, counterBatch))
	}
	return calls
})

// Counter is one counter in a reply to [ReadCounters]: its position in its call, from 1, and its text.
type Counter struct {
	Place int
	Text  string
}

// Add adds the reply to the call with that index of [ReadCounters]. The error names a counter, with the prefix of its
// keys, that cannot be compared with a token.
func (c *Counters) Add(call int, found []Counter, prefix string) error {
	for _, f := range found {
		number := call*counterBatch + f.Place - 1
		token, err := strconv.ParseUint(f.Text, 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("the token counter %s is %q, and no whole number", prefix+counterKey(number), f.Text)
		case token > maxPassed:
			return fmt.Errorf("the token counter %s is at %d, within 2^40 of the highest token. Another program may have written it: "+
				"docs/operations.md (token counter) says what to do", prefix+counterKey(number), token)
		}
		c[number] = max(c[number], token)
	}
	return nil
}

// Above returns the calls that raise another node's counters to these, if that node's are lower.
func (c *Counters) Above(node *Counters) (calls []scripts.Call) {
	var keys, tokens []any
	flush := func() {
		if len(keys) == 0 {
			return
		}
		args := append([]any{len(keys)}, keys...)
		calls = append(calls, liftScript.Call(append(args, tokens...)...))
		keys, tokens = nil, nil
	}
	for number, token := range c {
		if token > node[number] {
			keys, tokens = append(keys, counterKey(number)), append(tokens, int64(token))
		}
		if len(keys) == counterBatch {
			flush()
		}
	}
	flush()
	return calls
}

// Raise makes these counters at least as high as another node's.
func (c *Counters) Raise(node *Counters) {
	for number, token := range node {
		c[number] = max(c[number], token)
	}
}

func counterKey(number int) string { return scripts.CounterPrefix + strconv.Itoa(number) }

func parseCounters(v any, _ int) (any, bool) {
	var found []Counter
	f := scripts.FieldsOf(v)
	for f.More() {
		found = append(found, Counter{f.Number(1, counterBatch), f.Text()})
	}
	return found, f.End() && len(found) <= counterBatch
}

func parseLift(v any, _ int) (any, bool) {
	raised, ok := v.(int64)
	return raised, ok && raised >= 0 && raised <= counterBatch
}
