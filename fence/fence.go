// Package fence guards a resource by fencing tokens: the resource keeps the greatest token that it
// has seen, and refuses lower ones. A lock cannot do that alone: a holder can be paused between
// checking its lock and writing, for longer than its lease, and only the resource can refuse the
// write that comes late.
//
//	tx, err := db.BeginTx(ctx, nil) // ctx is the lock's
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback()
//	if err := fence.Stamp(ctx, tx, "account:42", lock.Token()); err != nil {
//		return err // errors.Is(err, fence.ErrFenced): a later holder was here
//	}
//	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 42"); err != nil {
//		return err
//	}
//	return tx.Commit()
//
// A holder stamps the resource first, then reads, then writes:
//
//   - Each transaction begins with the stamp: [Stamp] for a table of tokens ([StampRow] if the
//     transaction is not of database/sql, [StampMySQL] on MySQL and MariaDB), [Column.Stamp] for a
//     column of the application's own table, [StampKey] for a key of a Redis server.
//   - What is read after a stamp counts only once that transaction is committed. A rollback takes
//     the stamp back.
//   - Each later transaction, above all one that writes, begins with the stamp again.
//
// The order matters. A stamp before the first read shuts out the writes of earlier holders before
// the new holder looks. With the stamp at the write, a late write slips in between:
//
//	holder 1, token 41        holder 2, token 42        balance   greatest token
//	reads 100, is paused                                100       41
//	                          reads 100                 100       41
//	writes 110: accepted                                110       41
//	                          writes 105: accepted      105       42    the 110 is lost
//
// With the stamp first:
//
//	reads 100, is paused                                100       41
//	                          stamps, reads 100         100       42
//	writes 110: ErrFenced                               100       42
//	                          writes 105: accepted      105       42
//
// All programs that write to a resource must lock the same name, and stamp with that lock's token:
// tokens of two names cannot be compared. An equal token is accepted, since a holder may write
// often: the token does not keep goroutines of one holder apart.
//
// The package imports no SQL driver. [Stamp], [StampRow] and [Column.Stamp] are for PostgreSQL and for SQLite
// from version 3.35, [StampMySQL] is for MySQL and MariaDB. docs/fencing.md has the stamp for psql, and for an
// object in S3.
package fence

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced: the resource has seen a greater token, so the lock has passed to another holder.
	// The work of the lower token is over: a retry gets the same error.
	ErrFenced = errors.New("fenced")
	// ErrInvalid: an argument is not valid; the message says which and why. It is not quorum.ErrInvalid.
	ErrInvalid = errors.New("invalid argument")
)

// Error is a token that a resource refused. It wraps [ErrFenced].
type Error struct {
	Resource string
	Token    uint64 // refused
	Seen     uint64 // the greatest token that the resource has seen
}

func (e *Error) Error() string {
	return fmt.Sprintf("fence: %s: fenced: token %d is below %d, the greatest seen", e.Resource, e.Token, e.Seen)
}

func (e *Error) Unwrap() error { return ErrFenced }

// maxToken is the greatest token that a resource takes: up to there all of them compare exactly. Locks'
// tokens are below 2^52. A resource that has seen a greater one by mistake would refuse every holder
// from then on.
const maxToken = 1<<53 - 1

func check(resource string, token uint64) error {
	switch {
	case resource == "":
		return fmt.Errorf("fence: %w: an empty resource", ErrInvalid)
	case token == 0 || token > maxToken:
		return fmt.Errorf("fence: %s: %w: token %d, want 1 to %d", resource, ErrInvalid, token, uint64(maxToken))
	}
	return nil
}

// compare decides by the greatest token that the resource has seen.
func compare(resource string, token, seen uint64) error {
	if seen > token {
		return &Error{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}
