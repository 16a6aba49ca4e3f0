package main

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/bench/internal/peers"
)

// choiceMasters are the numbers of masters.
var choiceMasters = []int{1, 3, 5}

func choiceTest(callers int) string { return fmt.Sprintf("choices, %d callers", callers) }

// measureChoices measures the locks that a user may choose.
func measureChoices(callers int) func(*bench, context.Context, int) (*outcome, error) {
	return func(b *bench, ctx context.Context, n int) (*outcome, error) {
		sides, err := openChoices(b.urls(n))
		if err != nil {
			return nil, err
		}
		defer closeAll(sides)
		return b.pairs(ctx, sides, callers, b.choices, b.some(n))
	}
}

func openChoices(urls []string) ([]peers.Peer, error) {
	opens := []func() (peers.Peer, error){
		func() (peers.Peer, error) { return peers.OpenLibrary(urls) },
		func() (peers.Peer, error) { return peers.OpenFastRedsync(urls), nil },
		func() (peers.Peer, error) { return peers.OpenGoRedsync(urls) },
		func() (peers.Peer, error) { return peers.OpenRueidislock(urls[0], len(urls)) },
	}
	if len(urls) == 1 {
		opens = append(opens, func() (peers.Peer, error) { return peers.OpenRedislock(urls[0]) })
	}
	return openAll(opens...)
}
