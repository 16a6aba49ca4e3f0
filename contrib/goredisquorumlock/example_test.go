package goredisquorumlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/contrib/goredisquorumlock"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// docs/clients.md quotes openNodes.

func openNodes(clients []*redis.Client, opts ...node.Option) ([]*node.Node, error) {
	nodes := make([]*node.Node, 0, len(clients))
	for _, client := range clients { // one for each master
		n, err := goredisquorumlock.Open(client.Options(), opts...)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func Example() {
	masters, err := redistest.StartEmbedded(3) // your masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Stop()
	var clients []*redis.Client
	for _, m := range masters.Masters {
		client := redis.NewClient(&redis.Options{Addr: m.Addr(), DB: 1})
		defer client.Close()
		clients = append(clients, client)
	}

	nodes, err := openNodes(clients, node.WithoutQuarantine()) // for a test
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		defer n.Close()
	}
	locker, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(context.Background(), func(ctx context.Context, lock *quorum.Lock) error {
		charges, err := clients[0].Incr(ctx, "invoice:42:charges").Result() // its own data, over its own connection
		fmt.Println("charged:", charges, "with a token:", lock.Token() > 0)
		return err
	}, "invoice:42")
	fmt.Println("error:", err)
	// Output:
	// charged: 1 with a token: true
	// error: <nil>
}
