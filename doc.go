// Package quorumlock is the first page of a module that makes one lock out of several independent Redis
// masters, for services in which two holders at once do real harm. It exports nothing itself.
//
//	locker, err := redlock.Open([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	return locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
//		return charge(ctx, lock.Token())
//	}, "invoice:42")
//
// # The life of a lock
//
// Lock and Do wait until enough masters have granted the lock. TryLock does not wait for a release. A lock is a lease,
// by default of 30 s, that renews itself every third of that. A holder that crashes blocks the others for up to one
// lease. The lock's context ends when the lock can no longer be trusted, by the local clock and without needing a
// packet. Its fencing token is greater than every earlier holder's: a resource that refuses lower tokens than it has
// seen is safe from a holder that was paused in the middle of a write.
//
// New masters, and masters that restarted, grant nothing for 30 s (node.WithMaxLease): they may have forgotten what
// they granted. So the first lock on new masters comes after 30 s. The library logs this, masters that do not answer,
// and locks that are lost, to slog's default logger; quorum.WithLogger names another.
//
// The repository's README says what is guaranteed and what is not; docs/usage.md has the patterns,
// the options and the errors; docs/operations.md is for people who run the masters.
//
// # Packages
//
//   - [github.com/quorumlock/quorumlock/redlock] makes a lock that holds when a majority of the
//     masters granted it: the choice in nearly all cases.
//   - [github.com/quorumlock/quorumlock/multilock] makes a lock that every master must grant.
//   - [github.com/quorumlock/quorumlock/quorum] has what both return: a Locker, its Locks, the
//     options and the errors.
//   - [github.com/quorumlock/quorumlock/quorum/semaphore] lets at most n holders in at a time.
//   - [github.com/quorumlock/quorumlock/node] has one master: its options, and how to bring a pool,
//     TLS or a dialer of your own.
//   - [github.com/quorumlock/quorumlock/inmemory] has a master within the process, for a service that
//     runs as one process without a server.
//   - [github.com/quorumlock/quorumlock/fence] has a database or a Redis key refuse the writes of a
//     holder whose lock has passed to another.
//   - [github.com/quorumlock/quorumlock/leader] lets one instance of a service lead.
//   - [github.com/quorumlock/quorumlock/quorumtest] is for the tests of a service that locks.
//   - [github.com/quorumlock/quorumlock/clock] measures time for leases; package fakeclock in it is for tests.
//   - [github.com/quorumlock/quorumlock/quorum/operator] shows who holds a lock, takes it from its holder, and ends
//     quarantines, for programs of the people who run the masters.
//   - [github.com/quorumlock/quorumlock/cmd/quorumlock] is a command for the people who run the
//     masters. Its demo shows what a lock survives.
//
// Modules of their own:
//
//   - [github.com/quorumlock/quorumlock/contrib/promquorumlock] and
//     [github.com/quorumlock/quorumlock/contrib/otelquorumlock] measure locks for Prometheus and by
//     OpenTelemetry.
//   - [github.com/quorumlock/quorumlock/contrib/goredisquorumlock],
//     [github.com/quorumlock/quorumlock/contrib/rueidisquorumlock] and
//     [github.com/quorumlock/quorumlock/contrib/valkeygoquorumlock] open nodes by the options of go-redis,
//     rueidis and valkey-go clients.
//   - [github.com/quorumlock/quorumlock/contrib/gocronquorumlock] runs each job of gocron once per tick.
//   - [github.com/quorumlock/quorumlock/contrib/quorumchaos] puts a service that locks under faults of real
//     masters, and judges what it did.
//   - [github.com/quorumlock/quorumlock/contrib/quorumvet] has go vet find code that ignores its lock.
//
// The other packages are no API: they may change at any time.
package quorumlock
