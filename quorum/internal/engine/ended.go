package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// WaitOver is the cause of a context by which a caller bounds its waiting. It is not a context's error: the caller's
// own context has not ended.
type WaitOver time.Duration

func (d WaitOver) Error() string { return fmt.Sprintf("gave up after %v", time.Duration(d)) }

// EndOf returns what the end of ctx adds to an error: ctx.Err(), and the cause if it differs; or the WaitOver alone. It
// returns nil if ctx has not ended.
func EndOf(ctx context.Context) []error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil {
		return nil
	}
	if over, ok := cause.(WaitOver); ok {
		return []error{over}
	}
	if Same(cause, err) {
		return []error{err}
	}
	return []error{err, cause}
}

// Same reports whether two errors are the same. A caller's error, or a part of it, may have a type that cannot be
// compared: then == panics, and so does errors.Is for such a part.
func Same(a, b error) bool { return reflect.ValueOf(a).Comparable() && a == b }

// IsOverdue reports whether one of the causes is a timeout: the nodes had not answered by then.
func IsOverdue(causes []error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool {
		_, over := cause.(WaitOver)
		return over || cause == context.DeadlineExceeded
	})
}

// KindOfEnd returns how an attempt or a call has ended for which no other reason than these causes is known.
func KindOfEnd(causes []error) Kind {
	for _, cause := range causes {
		if cause == context.Canceled || cause == context.DeadlineExceeded {
			return Canceled
		}
	}
	return Failed
}
