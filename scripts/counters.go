package scripts

import (
	"fmt"
	"strconv"
	"sync"
)

// counterBatch is how many counters one call reads or raises.
const counterBatch = 1024

// maxPassed is the highest counter that is passed on to other nodes: it leaves room for 2^40 locks.
const maxPassed = maxToken - 1<<40

// Counters is token counters by their numbers; 0 for none.
type Counters [tokenCounters]uint64

// ReadCounters returns the calls that read all token counters of a node. The caller must not change
// them.
var ReadCounters = sync.OnceValue(func() (calls []Call) {
	for first := 0; first < tokenCounters; first += counterBatch {
		args := make([]any, 0, 2+counterBatch)
		args = append(args, countersScript.sha, counterBatch)
		for number := first; number < first+counterBatch; number++ {
			args = append(args, counterKey(number))
		}
		calls = append(calls, Call{script: countersScript, args: args})
	}
	return calls
})

// Counter is a counter that was read: its place in its call, from 1 on, and its text.
type Counter struct {
	Place int
	Text  string
}

// Add takes up the reply to one of the calls of [ReadCounters], by the call's place. The error says
// which counter is none that a token can be compared with.
func (c *Counters) Add(call int, found []Counter) error {
	for _, f := range found {
		number := call*counterBatch + f.Place - 1
		token, err := strconv.ParseUint(f.Text, 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("the token counter %s is %q, and no whole number", counterKey(number), f.Text)
		case token > maxPassed:
			return fmt.Errorf("the token counter %s is at %d, within 2^40 of the highest token. Another program may have written it: "+
				"docs/operations.md (token counter) says what to do", counterKey(number), token)
		}
		c[number] = max(c[number], token)
	}
	return nil
}

// Above returns the calls that raise another node's counters to these, if that node's are lower.
func (c *Counters) Above(node *Counters) (calls []Call) {
	var keys, tokens []any
	flush := func() {
		if len(keys) == 0 {
			return
		}
		args := append([]any{liftScript.sha, len(keys)}, keys...)
		calls = append(calls, Call{script: liftScript, args: append(args, tokens...)})
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

// Raise makes these counters at least those of another node.
func (c *Counters) Raise(node *Counters) {
	for number, token := range node {
		c[number] = max(c[number], token)
	}
}

func counterKey(number int) string { return counterPrefix + strconv.Itoa(number) }

// ParseCounters reads the reply to one of the calls of [ReadCounters]; errors wrap ErrReply.
func ParseCounters(v any) ([]Counter, error) {
	values, ok := v.([]any)
	if !ok || len(values)%2 != 0 || len(values) > 2*counterBatch {
		return nil, malformed(countersScript, v)
	}
	found := make([]Counter, len(values)/2)
	for i := range found {
		place, ok := values[2*i].(int64)
		counter, ok1 := text(values[2*i+1])
		if !ok || !ok1 || place < 1 || place > counterBatch {
			return nil, malformed(countersScript, v)
		}
		found[i] = Counter{int(place), counter}
	}
	return found, nil
}

// ParseLift reads the reply to one of the calls of [Counters.Above]; errors wrap ErrReply.
func ParseLift(v any) error {
	if raised, ok := v.(int64); !ok || raised < 0 || raised > counterBatch {
		return malformed(liftScript, v)
	}
	return nil
}
