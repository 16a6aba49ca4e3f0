package main

import (
	"context"
	"errors"
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

func openChoices(urls []string) (sides []peers.Peer, err error) {
	opens := []func() (peers.Peer, error){
		func() (peers.Peer, error) { return peers.OpenLibrary(urls) },
		func() (peers.Peer, error) { return peers.OpenFastRedsync(urls), nil },
		func() (peers.Peer, error) { return peers.OpenGoRedsync(urls) },
		func() (peers.Peer, error) { return peers.OpenRueidislock(urls[0], len(urls)) },
	}
	if len(urls) == 1 {
		opens = append(opens, func() (peers.Peer, error) { return peers.OpenRedislock(urls[0]) })
	}
	for _, open := range opens {
		side, err := open()
		if err != nil {
			return nil, errors.Join(err, closeAll(sides))
		}
		sides = append(sides, side)
	}
	return sides, nil
}
