package silent

import (
	"context"
	"database/sql"

	"github.com/quorumlock/quorumlock/fence"
)

// Stamps.

func twoTransactions(ctx context.Context, db *sql.DB, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	tx.QueryRow("SELECT a FROM b")
	if err := tx.Commit(); err != nil {
		return err
	}
	if tx, err = db.BeginTx(ctx, nil); err != nil {
		return err
	}
	return fence.Stamp(ctx, tx, "a", token)
}

func replica(ctx context.Context, tx *sql.Tx, replica *sql.DB, token uint64) error {
	replica.QueryRowContext(ctx, "SELECT a FROM b")
	tx.QueryRowContext(ctx, "SELECT a FROM b WHERE c = 1 FOR NO KEY UPDATE")
	return fence.Stamp(ctx, tx, "a", token)
}
