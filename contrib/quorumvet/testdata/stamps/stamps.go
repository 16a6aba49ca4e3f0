package stamps

import (
	"context"
	"database/sql"

	"github.com/quorumlock/quorumlock/fence"
)

const query = "SELECT balance FROM accounts WHERE id = 42"

var shared *sql.Tx

var _ = shared.QueryRow(query) // in no block

func stampLast(ctx context.Context, tx *sql.Tx, token uint64) error {
	var balance int
	if err := tx.QueryRowContext(ctx, query).Scan(&balance); err != nil { // want `an earlier holder may write between this and the stamp in line 21: stamp first`
		return err
	}
	if err := fence.Stamp(ctx, tx, "account:42", token); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $1", balance+10)
	return err
}

func others(ctx context.Context, a, b *sql.Tx, token uint64) {
	// want +1 `an earlier holder may write between this and the stamp in line 33`
	a.Query(`
		select balance
		from accounts`)
	fence.StampMySQL(ctx, a, "account:42", token)
	b.QueryRow(query) // want `an earlier holder`
	fence.Column{Table: "accounts", Key: "id", Token: "token"}.Stamp(ctx, b, 42, token)
}

// Tx is one of another library.
type Tx interface {
	QueryRow(ctx context.Context, statement string, args ...any) fence.Row
}

func otherLibrary(ctx context.Context, tx Tx, token uint64) {
	tx.QueryRow(ctx, query) // want `an earlier holder`
	fence.StampRow(func(statement string, args ...any) fence.Row {
		return tx.QueryRow(ctx, statement, args...)
	}, "account:42", token)
}

// From here on nothing is reported.

func stampFirst(ctx context.Context, tx *sql.Tx, token uint64) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '1s'"); err != nil {
		return err
	}
	if err := fence.Stamp(ctx, tx, "account:42", token); err != nil {
		return err
	}
	tx.QueryRow(query)
	return fence.Stamp(ctx, tx, "account:42", token)
}

func noReads(ctx context.Context, tx, other *sql.Tx, db *sql.DB, token uint64) {
	tx.QueryRow("SELECT set_config('lock_timeout', '1s', true)")
	tx.QueryRow(query + " FOR UPDATE")
	tx.Exec("SELECT pg_notify(name, '') FROM channels")
	other.QueryRow(query)
	db.QueryRow(query)
	fence.Stamp(ctx, tx, "account:42", token)
}

func onOtherPaths(ctx context.Context, tx *sql.Tx, token uint64, reads bool) {
	if reads {
		tx.QueryRow(query)
		return
	}
	fence.Stamp(ctx, tx, "account:42", token)
	if reads {
		tx.QueryRow(query)
		fence.Stamp(ctx, tx, "account:42", token)
	}
}

func eitherPath(ctx context.Context, tx *sql.Tx, token uint64, reads bool) {
	switch {
	case reads:
		tx.QueryRow(query)
	default:
		fence.Stamp(ctx, tx, "account:42", token)
	}
	if reads {
		tx.QueryRow(query)
	} else {
		fence.Stamp(ctx, tx, "account:42", token)
	}
}

func inFunction(ctx context.Context, tx *sql.Tx, token uint64) {
	later := func() { tx.QueryRow(query) }
	fence.Stamp(ctx, tx, "account:42", token)
	later()
}
