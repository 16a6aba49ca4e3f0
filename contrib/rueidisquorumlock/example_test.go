package rueidisquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/contrib/rueidisquorumlock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

func Example() {
	masters, err := redistest.StartEmbedded(3) // your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()
	var nodes []*node.Node
	for _, m := range masters.Masters {
		option := rueidis.ClientOption{ // your client's
			InitAddress: []string{m.Addr()}, ClientName: "billing", ConnWriteTimeout: 10 * time.Second,
		}
		n, err := rueidisquorumlock.Open(option, node.WithoutQuarantine()) // for a test
		if err != nil {
			log.Fatal(err)
		}
		defer n.Close()
		nodes = append(nodes, n)
	}
	locker, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("locked:", lock.Names()[0], lock.Valid())
		return nil
	}, "invoice:42")
	fmt.Println("error:", err)
	// Output:
	// locked: invoice:42 true
	// error: <nil>
}
