package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Schema creates the table of [Stamp] and [StampRow], on PostgreSQL and SQLite. Run it as a migration.
const Schema = `CREATE TABLE IF NOT EXISTS quorumlock_fences (
	resource text   NOT NULL PRIMARY KEY,
	token    bigint NOT NULL
)`

// Both statements write the row whatever the outcome: the write locks the row until the transaction
// ends, so transactions with stamps on one resource run one after the other. The row keeps the
// greater token and returns it, so a refusal needs no second statement. $1 comes before $2 in each:
// some drivers of SQLite count parameters by their first appearance.
const (
	stampRow = `INSERT INTO quorumlock_fences (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = CASE
	WHEN quorumlock_fences.token > excluded.token THEN quorumlock_fences.token
	ELSE excluded.token END
RETURNING token`

	stampColumn = `UPDATE %[1]s SET %[3]s = CASE WHEN %[3]s > $1 THEN %[3]s ELSE $1 END
WHERE %[2]s = $2 RETURNING %[3]s`
)

// Stamp records in the table of [Schema] that the resource has seen the token, if it has seen none that is greater. It
// must be the first statement of the transaction: see the package comment. A resource that is not in the table has seen
// no token.
//
// Until the transaction ends, Stamp in another transaction on the same resource waits (on SQLite,
// on any resource, and for no longer than the busy timeout). So a process that is paused with its
// transaction open holds up the next holder until the server ends that transaction.
//
// When the resource has seen a greater token, the error is an [*Error]. The caller must roll the
// transaction back then, as after any error. The error wraps [ErrInvalid] for an empty resource or a token outside
// 1 to 2^53−1: no statement is run then. Errors of the database are wrapped. At the levels
// REPEATABLE READ and SERIALIZABLE a stamp that had to wait fails when the other transaction
// commits (SQLSTATE 40001): run the transaction again to see whether the token is fenced.
func Stamp(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	return StampRow(func(statement string, args ...any) Row {
		return tx.QueryRowContext(ctx, statement, args...)
	}, resource, token)
}

// Row is the one row that a statement returns: [*sql.Row], or pgx.Row. Scan returns the error of the
// statement, too.
type Row interface {
	Scan(dest ...any) error
}

// StampRow is [Stamp] for transactions that are not of database/sql, with the same errors. It calls query once, which
// runs the statement with its arguments, $1 and $2, in the transaction:
//
//	err := fence.StampRow(func(statement string, args ...any) fence.Row {
//		return tx.QueryRow(ctx, statement, args...) // tx is a pgx.Tx
//	}, "account:42", lock.Token())
func StampRow(query func(statement string, args ...any) Row, resource string, token uint64) error {
	if err := check(resource, token); err != nil {
		return err
	}
	var seen int64
	if err := query(stampRow, resource, int64(token)).Scan(&seen); err != nil {
		return fmt.Errorf("fence: stamp %s: %w", resource, err)
	}
	return compare(resource, token, uint64(seen))
}

// Column guards each row of a table by a column of that table, which holds the greatest token that
// the row has seen. The column is a bigint; NULL and 0 mean that the row has seen no token. It is for PostgreSQL and
// SQLite: MySQL and MariaDB have no UPDATE ... RETURNING.
//
// The names become part of a statement as they stand. They must be the program's own, never input.
type Column struct {
	Table string // "invoices", or "billing.invoices"
	Key   string // the column that identifies a row: "id"
	Token string // the column that holds the token
}

// Stamp is the function [Stamp] for the row with the key, with the same errors, and [ErrInvalid] for an empty Table,
// Key or Token. If there is no such row, the error wraps [sql.ErrNoRows]: a row that is yet to be created needs the
// table of [Schema].
func (c Column) Stamp(ctx context.Context, tx *sql.Tx, key any, token uint64) error {
	if c.Table == "" || c.Key == "" || c.Token == "" {
		return fmt.Errorf("fence: %w: Column needs a Table, a Key and a Token", ErrInvalid)
	}
	resource := fmt.Sprintf("%s %v", c.Table, key)
	if err := check(resource, token); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(stampColumn, c.Table, c.Key, c.Token), int64(token), key)
	if err != nil {
		return fmt.Errorf("fence: stamp %s: %w", resource, err)
	}
	seen, n, err := greatest(rows)
	switch {
	case err != nil:
		return fmt.Errorf("fence: stamp %s: %w", resource, err)
	case n == 0:
		return fmt.Errorf("fence: stamp %s: %w", resource, sql.ErrNoRows)
	}
	return compare(resource, token, seen)
}

// greatest returns the greatest token of the rows: a key that is not unique stamps several.
func greatest(rows *sql.Rows) (seen uint64, n int, err error) {
	for rows.Next() {
		var one int64
		if err := rows.Scan(&one); err != nil {
			return 0, 0, errors.Join(err, rows.Close())
		}
		seen = max(seen, uint64(one))
		n++
	}
	return seen, n, errors.Join(rows.Err(), rows.Close())
}
