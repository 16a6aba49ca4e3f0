package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/quorumlock/quorumlock/internal/examples"
	"github.com/quorumlock/quorumlock/quorum"
)

// docs/scale.md quotes this file.

// groupOf returns the locker of a name's group. Every process must have the same groups in the same
// order.
func groupOf(groups []*quorum.Locker, name string) *quorum.Locker {
	h := fnv.New32a()
	h.Write([]byte(name))
	return groups[h.Sum32()%uint32(len(groups))]
}

func Example_groups() {
	mastersOne, first := examples.Start()
	defer mastersOne.Stop()
	defer first.Close()
	mastersTwo, second := examples.Start()
	defer mastersTwo.Stop()
	defer second.Close()
	groups := []*quorum.Locker{first, second}
	ctx := context.Background()

	held := map[*quorum.Locker]int{}
	for i := range 8 {
		name := fmt.Sprintf("invoice:%d", i)
		lock, err := groupOf(groups, name).Lock(ctx, name)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer lock.Unlock(ctx)
		held[groupOf(groups, name)]++
		if _, err := groupOf(groups, name).TryLock(ctx, name); !errors.Is(err, quorum.ErrHeld) {
			fmt.Println("held by two", err)
		}
	}
	fmt.Println("groups in use:", len(held))
	// Output: groups in use: 2
}
