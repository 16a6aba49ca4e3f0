package quorumchaos_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

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
	cluster.Freeze(0)
	cluster.Freeze(1)
	<-ctx.Done()
	cluster.Thaw(0)
	cluster.Thaw(1)
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
