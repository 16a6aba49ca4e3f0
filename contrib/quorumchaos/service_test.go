package quorumchaos_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/judge"
	"github.com/quorumlock/quorumlock/quorum"
)

// account is somebody's service: each request adds 10 to a balance, under a lock.
type account struct {
	locker *quorum.Locker
	bank   func(context.Context) // takes its time
	table  *table
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := a.locker.Do(r.Context(), func(ctx context.Context, lock *quorum.Lock) error {
		defer a.table.judge.Holds(lock)()
		balance, err := a.table.read(lock.Token())
		if err != nil {
			return err
		}
		a.bank(ctx)
		return a.table.write(lock.Token(), balance+10)
	}, "account:42")
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// table is its database: a balance, and the highest token that it has seen.
type table struct {
	judge    *judge.Judge
	careless bool // leaves out the token check

	mu      sync.Mutex
	highest uint64
	balance int
}

func (t *table) read(token uint64) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.check(token); err != nil {
		return 0, err
	}
	t.judge.Read("account:42", token, t.balance)
	return t.balance, nil
}

func (t *table) write(token uint64, balance int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.check(token); err != nil {
		return err
	}
	t.balance = balance
	t.judge.Wrote("account:42", token, balance)
	return nil
}

func (t *table) check(token uint64) error {
	if token < t.highest && !t.careless {
		return errors.New("a later holder was here")
	}
	t.highest = max(t.highest, token)
	return nil
}

// post sends a request.
func post(service http.Handler) int {
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", nil))
	return answer.Code
}
