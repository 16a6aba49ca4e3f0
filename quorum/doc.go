// Package quorum makes one lock out of several independent Redis masters, its nodes. How many of them make a
// lock is a [Rule]. Packages redlock (a majority) and multilock (all) choose one. A program opens one [Locker]
// there when it starts, and uses it everywhere:
//
//	locker, err := redlock.Open([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer locker.Close() // when the program ends
//
//	err = locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
//		return charge(ctx, lock.Token()) // ctx ends when the lock can no longer be trusted
//	}, "invoice:42")
//	if errors.Is(err, quorum.ErrLost) {
//		log.Print("the lock was lost before charge returned")
//	}
//	return err
//
// A name has one holder at a time: goroutines of one process exclude each other as processes do, and only code
// that is given the lock's context enters the lock again. While the clocks of the processes and the masters run
// about equally fast ([WithDrift]), [Lock.Valid] is false before another may hold the name. [Lock.Context] ends then, too,
// but late in a process that has stood still. [Lock.Token] is greater than the tokens of all holders before: let what the
// lock protects refuse lower ones.
//
// A name is held by [Locker.Lock], [Locker.TryLock] or [Locker.Do]; by many readers or one writer through
// [Locker.RWLock]; or in slots by package semaphore. Errors wrap what applies: test them with errors.Is, never by ==.
// [Error] has the details of a failed call. To open a Locker needs no master that answers: [Locker.Ready] says whether
// enough do.
//
// docs/usage.md in the repository has patterns, docs/safety.md what is guaranteed and what is not.
package quorum
