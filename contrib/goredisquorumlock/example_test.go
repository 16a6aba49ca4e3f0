package goredisquorumlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/contrib/goredisquorumlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/quorumlock/quorumlock/redlock"
)

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
	masters, end := quorumtest.ForExample(3) // your masters
	defer end()
	var clients []*redis.Client
	for _, url := range masters.URLs() {
		options, err := redis.ParseURL(url)
		if err != nil {
			log.Fatal(err)
		}
		client := redis.NewClient(options)
		defer client.Close()
		clients = append(clients, client)
	}

	nodes, err := openNodes(clients)
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

	err = locker.Do(context.Background(), func(_ context.Context, lock *quorum.Lock) error {
		fmt.Println("locked:", lock.Names()[0], lock.Valid())
		return nil
	}, "invoice:42")
	fmt.Println("error:", err)
	// Output:
	// locked: invoice:42 true
	// error: <nil>
}
