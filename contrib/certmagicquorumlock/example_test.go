package certmagicquorumlock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/caddyserver/certmagic"
	"github.com/quorumlock/quorumlock/contrib/certmagicquorumlock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/certmagic.md quotes configure.

func configure(cache *certmagic.Cache, locker *quorum.Locker, dir string) (*certmagic.Config, error) {
	shared := &certmagic.FileStorage{Path: dir}
	storage, err := certmagicquorumlock.New(shared, locker, "certs:")
	if err != nil {
		return nil, err
	}
	return certmagic.New(cache, certmagic.Config{Storage: storage}), nil
}

// Three servers start at once and need a certificate of the same name. One of them orders it.
func Example() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	dir, err := os.MkdirTemp("", "certificates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ca := newStandIn()
	var servers sync.WaitGroup
	for range 3 {
		locker := masters.Locker() // yours: redlock.Open(urls)
		servers.Go(func() {
			config, stop, err := server(locker, dir, ca)
			if err != nil {
				log.Fatal(err)
			}
			defer stop()
			if err := config.ManageSync(context.Background(), []string{"www.example.com"}); err != nil {
				log.Fatal(err)
			}
		})
	}
	servers.Wait()
	fmt.Println("orders:", ca.orders.Load())
	// Output:
	// orders: 1
}
