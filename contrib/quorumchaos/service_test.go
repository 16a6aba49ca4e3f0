package quorumchaos_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos"
	"github.com/quorumlock/quorumlock/contrib/quorumchaos/judge"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
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

func post(service http.Handler) int {
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", nil))
	return answer.Code
}

// masters starts three masters, and a service on them.
func masters(t *testing.T, careless bool) (*quorumchaos.Cluster, *account) {
	options := []node.Option{node.WithMaxLease(5 * time.Second), node.WithTimeout(time.Second)}
	cluster := quorumchaos.Start(t, 3, options...)
	locker, err := redlock.Open(cluster.URLs(), quorum.WithNodeOptions(options...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close() })
	return cluster, &account{locker: locker, table: &table{judge: cluster.Judge(), careless: careless}}
}

// pause pauses a request in its work until its lock is lost and another request is done.
func pause(cluster *quorumchaos.Cluster, service *account) (paused, other int) {
	working, resume, done := make(chan context.Context), make(chan bool), make(chan int)
	service.bank = func(ctx context.Context) { working <- ctx; <-resume }
	go func() { done <- post(service) }()
	ctx := <-working
	cluster.Freeze(0, 1)
	<-ctx.Done()
	cluster.Thaw(0, 1)
	service.bank = func(context.Context) {}
	other = post(service)
	close(resume)
	return <-done, other
}

func TestPausedRequest(t *testing.T) {
	t.Parallel()
	if paused, other := pause(masters(t, false)); paused != http.StatusConflict || other != http.StatusOK {
		t.Errorf("the paused request: %d, the other: %d", paused, other)
	} // the end of the test asks the judge
}

func TestPausedRequestWithoutTheTokenCheck(t *testing.T) {
	t.Parallel()
	cluster, service := masters(t, true)
	pause(cluster, service)
	err := cluster.Judge().Check()
	if err == nil {
		t.Error("nothing was caught")
	}
	t.Log(err)
}

func TestMain(m *testing.M) { testkit.Main(m) }

// Clients send requests while masters fail at random.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	cluster, service := masters(t, false)
	service.bank = func(context.Context) { time.Sleep(10 * time.Millisecond) }
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var done [3]int
	for i := range done {
		clients.Go(func() {
			for ctx.Err() == nil {
				if post(service) == http.StatusOK {
					done[i]++
				}
			}
		})
	}
	cluster.Random(10*time.Second, 0)
	stop()
	clients.Wait()
	if sum := done[0] + done[1] + done[2]; sum == 0 || service.table.balance < 10*sum {
		t.Errorf("%d requests were answered, and the balance is %d", sum, service.table.balance)
	}
}
