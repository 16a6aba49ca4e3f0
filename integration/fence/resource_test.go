//go:build unix

package fence_test

import (
	"context"
	"fmt"
	"testing"
)

// order is the way in which a holder uses the guard: the right one, and the controls.
type order string

const (
	stampFirst    order = "stamp, read; stamp, write"
	oneStep       order = "stamp, read, write in one transaction"
	readFirst     order = "read; stamp, write"                    // wrong: the stamp comes with the write
	readFirstOne  order = "read, stamp, write in one transaction" // wrong
	rolledBack    order = "stamp, read, rollback; stamp, write"   // wrong: the stamp is taken back
	stampOnlyRead order = "stamp, read; write"                    // wrong: the write is not guarded
	unguarded     order = "read; write"                           // wrong
	unwatched     order = "stamp, read; compare, write"           // wrong: a step of Redis without WATCH
)

// opening is the balance of each account before the first write.
const opening = 100

// write is a write that the resource has committed.
type write struct {
	Token         uint64
	Before, After int
}

// resource has accounts, and a log of the writes to each. The log is written in the same transaction
// as the balance.
type resource interface {
	// account makes an account, unless it is there or needs not be made.
	account(t *testing.T, account int)
	// stamper stamps one account with a token, in a transaction of its own.
	stamper(t *testing.T) func(token uint64) error
	// session returns a client of its own, which calls step before each statement.
	session(t *testing.T, step func(next string)) session
	// state returns the balance of an account, and the log of its writes in the order of the commits.
	state(t *testing.T, account int) (balance int, log []write)
}

// session is a holder's connection to a resource.
type session interface {
	// work reads the balance and then adds each amount to it, in one write each, with the token. It
	// returns the acknowledged writes.
	work(ctx context.Context, account int, token uint64, by order, amounts ...int) ([]write, error)
	close()
}

// judge returns what is wrong with an account: a token that went back, or a write that is lost.
func judge(acknowledged []write, balance int, log []write) error {
	committed := map[write]bool{}
	last := write{After: opening}
	for i, w := range log {
		committed[w] = true
		switch {
		case w.Token < last.Token:
			return fmt.Errorf("write %d of token %d came after token %d: %v", i+1, w.Token, last.Token, log)
		case w.Before != last.After:
			return fmt.Errorf("lost update: write %d replaces %d, its holder had read %d: %v", i+1, last.After, w.Before, log)
		}
		last = w
	}
	if balance != last.After {
		return fmt.Errorf("the balance is %d, the last write wrote %d: %v", balance, last.After, log)
	}
	for _, w := range acknowledged {
		if !committed[w] {
			return fmt.Errorf("%v was acknowledged and is not there: %v", w, log)
		}
	}
	return nil
}
