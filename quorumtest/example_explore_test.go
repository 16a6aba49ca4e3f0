package quorumtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// till is a service that charges an invoice once.
type till struct {
	locker *quorum.Locker
	bank   *bank
	ask    func() // asks the card's issuer
}

func (s *till) charge(ctx context.Context) error {
	return s.locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
		if paid, err := s.bank.paid(lock.Token()); paid || err != nil {
			return err
		}
		s.ask()
		return s.bank.pay(lock.Token())
	}, "invoice:42")
}

// bank stands for the database, where the invoice has a column for the highest token so far.
type bank struct {
	ignoresTokens bool

	mu       sync.Mutex
	token    uint64
	payments int
}

var errStale = errors.New("a later holder was here")

func (b *bank) paid(token uint64) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token < b.token && !b.ignoresTokens {
		return false, errStale
	}
	b.token = token
	return b.payments > 0, nil
}

func (b *bank) pay(token uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token < b.token && !b.ignoresTokens {
		return errStale
	}
	b.payments++
	return nil
}

// With a bank that ignores tokens, a unit test of this service passes too. Explore finds the process
// that stood still for longer than its lease while it asked, and then paid what the next holder had
// paid.
func ExampleExplore() {
	testChargesOnce := func(t *testing.T) {
		quorumtest.Explore(t, 200, func(t *testing.T, masters *quorumtest.Masters) {
			bank := &bank{}
			var tills sync.WaitGroup
			for range 3 {
				locker := masters.Locker()
				s := &till{locker, bank, func() { masters.Work(locker, time.Second) }}
				tills.Go(func() {
					for s.charge(t.Context()) != nil {
						time.Sleep(time.Second)
					}
				})
			}
			tills.Wait()
			if bank.payments != 1 {
				t.Errorf("paid %d times", bank.payments)
			}
		})
	}
	_ = testChargesOnce // in a file of tests it is TestChargesOnce
}
