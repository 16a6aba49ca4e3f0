package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/examples"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/recipes.md quotes functions of this file.

// schema stands for a database and its migrations.
type schema struct {
	mu      sync.Mutex
	version int
	runs    int
}

const latest = 7

func (s *schema) Version(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, nil
}

func (s *schema) Migrate(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = latest
	s.runs++
	return nil
}

func migrate(ctx context.Context, locker *quorum.Locker, db *schema) error {
	patient := locker.With(quorum.WithWait(5 * time.Minute))
	return patient.Do(ctx, func(ctx context.Context, _ *quorum.Lock) error {
		version, err := db.Version(ctx)
		if err != nil || version == latest {
			return err // another instance was first
		}
		return db.Migrate(ctx)
	}, "billing/schema")
}

// Every instance migrates at its start. One does it, the others wait and find it done.
func Example_migrations() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	var db schema
	var instances sync.WaitGroup
	for range 3 {
		instances.Go(func() {
			if err := migrate(context.Background(), locker, &db); err != nil {
				log.Print(err)
			}
		})
	}
	instances.Wait()
	fmt.Println("version", db.version, "after", db.runs, "run")
	// Output:
	// version 7 after 1 run
}

type message struct{ id, order string }

// handle stands for one transaction: the stamp, then the message's id, then its effect.
type handle func(ctx context.Context, m message, token uint64) error

func consume(ctx context.Context, locker *quorum.Locker, m message, handle handle) error {
	lock, err := locker.TryLock(ctx, "order:"+m.order)
	if err != nil {
		return err // not acknowledged: the queue delivers the message again
	}
	defer lock.Unlock(ctx)
	return handle(lock.Context(), m, lock.Token())
}

// A consumer does not wait for an order that another one works on: the queue delivers again.
func Example_queueConsumer() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()

	err := consume(ctx, locker, message{"m1", "42"}, func(_ context.Context, m message, _ uint64) error {
		err := consume(ctx, locker, message{"m2", "42"}, nil) // another consumer
		fmt.Println("m2 comes again:", errors.Is(err, quorum.ErrHeld))
		return nil
	})
	fmt.Println("m1:", err)
	// Output:
	// m2 comes again: true
	// m1: <nil>
}

// objects stands for an object store, which checks no tokens.
type objects map[string]string

func (s objects) Put(_ context.Context, key, body string) error {
	s[key] = body
	return nil
}

func upload(ctx context.Context, locker *quorum.Locker, store objects, conn redis.Conn, picture string) error {
	return locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
		object := fmt.Sprintf("avatars/42/%d", lock.Token()) // no other holder writes there
		if err := store.Put(ctx, object, picture); err != nil {
			return err
		}
		_, err := fence.StampKey(ctx, conn, "avatar:42:token", lock.Token(),
			fence.Command{Name: "SET", Args: []any{"avatar:42:object", object}})
		return err
	}, "avatar:42")
}

// The object's key has the token. What points to the object is guarded by it.
func Example_upload() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker()  // yours: redlock.Open(urls)
	conn := examples.Resource() // yours: redis.Dial, to the server that holds what the lock protects
	defer conn.Close()
	ctx := context.Background()

	store := objects{}
	for _, picture := range []string{"first", "second"} {
		if err := upload(ctx, locker, store, conn, picture); err != nil {
			log.Fatal(err)
		}
	}
	object, err := redis.String(conn.Do("GET", "avatar:42:object"))
	fmt.Println(store[object], err, "of", len(store))
	// Output:
	// second <nil> of 2
}

func bill(ctx context.Context, candidate *leader.Candidate, conn redis.Conn, charge func(int) error) error {
	return candidate.Run(ctx, func(ctx context.Context, t *leader.Term) error {
		if _, err := fence.StampKey(ctx, conn, "billing:token", t.Token()); err != nil {
			return err // errors.Is(err, fence.ErrFenced): another instance leads
		}
		next, err := redis.Int(conn.Do("GET", "billing:next")) // read after the stamp
		for ; err == nil && ctx.Err() == nil; next++ {
			if err := charge(next); err != nil {
				return err
			}
			_, err = fence.StampKey(ctx, conn, "billing:token", t.Token(),
				fence.Command{Name: "SET", Args: []any{"billing:next", next + 1}})
		}
		return err
	})
}

// The leader stamps, reads where the last one stopped, and stamps with every write.
func Example_fencedLeader() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker()  // yours: redlock.Open(urls)
	conn := examples.Resource() // yours: redis.Dial, to the server that holds what the lock protects
	defer conn.Close()
	if _, err := conn.Do("SET", "billing:next", 40); err != nil {
		log.Fatal(err)
	}
	candidate, err := leader.New(locker, "billing")
	if err != nil {
		log.Fatal(err)
	}
	err = bill(context.Background(), candidate, conn, func(invoice int) error {
		fmt.Println("charges", invoice)
		if invoice == 42 {
			return errors.New("the bank is closed") // the term ends, and another instance goes on with 42
		}
		return nil
	})
	next, _ := redis.Int(conn.Do("GET", "billing:next"))
	fmt.Println(err, "- next:", next)
	// Output:
	// charges 40
	// charges 41
	// charges 42
	// the bank is closed - next: 42
}

// cache stands for what many processes read and one replaces.
type cache struct {
	mu     sync.Mutex
	values map[string]string
	token  uint64
}

func (c *cache) Replace(_ context.Context, token uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < c.token {
		return fence.ErrFenced
	}
	c.token, c.values = token, map[string]string{"answer": "42"}
	return nil
}

func (c *cache) Verify(ctx context.Context) error {
	_, err := c.Read(ctx, "answer")
	return err
}

func (c *cache) Read(_ context.Context, key string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[key], nil
}

func rebuild(ctx context.Context, locker *quorum.Locker, c *cache) error {
	lock, err := locker.RWLock("catalogue").Lock(ctx) // waits for the readers
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	if err := c.Replace(lock.Context(), lock.Token()); err != nil {
		return err
	}
	if err := lock.Downgrade(ctx); err != nil { // readers go on, and nobody replaces it meanwhile
		return err
	}
	return c.Verify(lock.Context())
}

func lookUp(ctx context.Context, locker *quorum.Locker, c *cache, key string) (string, error) {
	lock, err := locker.RWLock("catalogue").RLock(ctx)
	if err != nil {
		return "", err
	}
	defer lock.Unlock(ctx)
	return c.Read(lock.Context(), key)
}

// Many processes read a cache, and one of them replaces it now and then.
func Example_cache() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx, c := context.Background(), &cache{}
	if err := rebuild(ctx, locker, c); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lookUp(ctx, locker, c, "answer"))
	// Output:
	// 42 <nil>
}

// tryLock is tryLock(3, 10, TimeUnit.SECONDS) of a Redisson lock.
func tryLock(ctx context.Context, locker *quorum.Locker, name string) (*quorum.Lock, bool, error) {
	patient := locker.With(quorum.WithWait(3*time.Second), quorum.WithFixedLease(10*time.Second))
	lock, err := patient.Lock(ctx, name)
	if errors.Is(err, quorum.ErrHeld) && ctx.Err() == nil {
		return nil, false, nil
	}
	return lock, err == nil, err
}

// What Redisson's tryLock with a wait and a lease is here.
func Example_fromRedisson() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker := masters.Locker() // yours: redlock.Open(urls)
	ctx := context.Background()
	lock, held, err := tryLock(ctx, locker, "invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(held, time.Until(lock.Deadline()) <= 10*time.Second)
	// Output:
	// true true
}
