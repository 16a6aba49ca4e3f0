package excuses

import (
	"context"

	"github.com/quorumlock/quorumlock/quorum"
)

func work(ctx context.Context) error { return ctx.Err() }

func excused(ctx context.Context, locker *quorum.Locker) {
	locker.Do(ctx, func(held context.Context, _ *quorum.Lock) error {
		work(ctx) //quorumvet:ok the audit log must have it
		//quorumvet:ok the audit log must have it
		work(ctx)

		// want +1 `quorumvet:ok has no reason: say why this code is right`
		//quorumvet:ok
		work(ctx) // want `ctx does not end`
		//quorumvet:okay is another word
		return work(ctx) // want `ctx does not end`
	}, "a")
	lock, err := locker.Lock(ctx, "a") //quorumvet:ok held until the process ends
	if err == nil {
		work(lock.Context())
	}
}
