package rueidisquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/contrib/rueidisquorumlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

func Example() {
	masters, end := quorumtest.ForExample(3) // your masters
	defer end()
	var nodes []*node.Node
	for _, url := range masters.URLs() {
		option := rueidis.ClientOption{ // your client's
			InitAddress: []string{strings.TrimPrefix(url, "redis://")}, ClientName: "billing", ConnWriteTimeout: 10 * time.Second,
		}
		n, err := rueidisquorumlock.Open(option)
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
