// Package quorum makes one lock out of several independent Redis masters. How many of them make a
// lock is a [Rule]. Packages redlock (a majority) and multilock (all) choose one: most programs open a
// [Locker] there.
//
//	locker, err := redlock.Open([]string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"})
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	lock, err := locker.Lock(ctx, "invoice:42")
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx) // sent even if ctx has ended
//	return charge(lock.Context(), lock.Token())
//
// One process at a time holds a name. Its [Lock.Context] ends before another may hold it, as long as the clocks of
// the processes and the masters run about equally fast ([WithDrift]) and the code heeds the context. Its
// [Lock.Token] is greater than the tokens of all holders before it: let what the lock protects refuse lower ones.
//
// A name is held by [Locker.Lock], [Locker.TryLock] or [Locker.Do]; by many readers or one writer through
// [Locker.RWLock]; or in slots through [Locker.Semaphore]. Errors are [*Error]s, for errors.Is and errors.As.
//
// docs/design.md, "Layout", says where a change to this package goes.
package quorum
