package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
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
	first, endFirst := quorumtest.ForExample(3)
	defer endFirst()
	second, endSecond := quorumtest.ForExample(3)
	defer endSecond()
	groups := []*quorum.Locker{first.Locker(), second.Locker()}
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
