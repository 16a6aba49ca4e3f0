package quorumchaos_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

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
