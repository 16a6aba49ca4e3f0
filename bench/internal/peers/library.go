package peers

import (
	"context"
	"log/slog"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// silent is a logger: the bench freezes masters, and no report wants to be told.
var silent = slog.New(slog.DiscardHandler)

// Library is the library itself, as a user calls it.
type Library struct{ locker *quorum.Locker }

// OpenLibrary returns a redlock over the masters, with the given options.
func OpenLibrary(urls []string, opts ...quorum.Option) (*Library, error) {
	opts = append(opts, quorum.WithNodeOptions(node.WithoutQuarantine()), quorum.WithLogger(silent))
	locker, err := redlock.Open(urls, opts...)
	if err != nil {
		return nil, err
	}
	return &Library{locker}, nil
}

// Name returns the module's name.
func (l *Library) Name() string { return "quorumlock" }

// Locker returns the locker that the pairs use.
func (l *Library) Locker() *quorum.Locker { return l.locker }

// Pair implements [Peer].
func (l *Library) Pair(ctx context.Context, name string) error {
	lock, err := l.locker.Lock(ctx, name)
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// Close implements [Peer].
func (l *Library) Close() error { return l.locker.Close() }
