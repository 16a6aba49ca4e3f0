package fence_test

import (
	"context"
	"database/sql"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/quorum"
)

// guarded runs fn in a transaction that begins with the stamp.
func guarded(ctx context.Context, db *sql.DB, token uint64, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.Stamp(ctx, tx, "account:42", token); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// The lock spans two transactions, and work between them. Each begins with the stamp: the first, so
// that no late write of an earlier holder changes the balance after it was read; the second, so that
// this holder's own write is refused when it comes late.
func ExampleStamp() {
	work := func(ctx context.Context, locker *quorum.Locker, db *sql.DB) error {
		return locker.Do(ctx, func(ctx context.Context, lock *quorum.Lock) error {
			var balance int
			err := guarded(ctx, db, lock.Token(), func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance)
			})
			if err != nil {
				return err
			}
			balance += 10 // or what takes longer
			return guarded(ctx, db, lock.Token(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance)
				return err
			})
		}, "account:42")
	}
	_ = work // it needs a database
}
