package fence

import (
	"context"
	"database/sql"
	"fmt"
)

// SchemaMySQL creates the table of [StampMySQL], on MySQL and MariaDB. Run it as a migration. Resources
// are compared byte by byte: most collations hold two names for equal that differ in case, or in
// spaces at the end. Only InnoDB locks rows and undoes writes; what the stamp guards needs it, too.
const SchemaMySQL = `CREATE TABLE IF NOT EXISTS quorumlock_fences (
	resource varbinary(255) NOT NULL PRIMARY KEY,
	token    bigint         NOT NULL
) ENGINE=InnoDB`

// maxResourceMySQL is the longest resource, in bytes. A server without strict mode would cut longer
// ones short, and so take two resources for one.
const maxResourceMySQL = 255

// MySQL has no RETURNING. The upsert locks the row until the transaction ends, even if it leaves
// the token as it is. The read locks the row, too, which makes it see what is committed: if the
// transaction has read before, a plain SELECT at REPEATABLE READ would still see the row as it was
// then, and pass a token that is fenced.
const (
	raiseMySQL = `INSERT INTO quorumlock_fences (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)`

	readMySQL = `SELECT token FROM quorumlock_fences WHERE resource = ? FOR UPDATE`
)

// StampMySQL is [Stamp] for MySQL and MariaDB, in the table of [SchemaMySQL], with two statements. The
// resource has at most 255 bytes.
//
// It is sound at every isolation level from READ COMMITTED on. A stamp that fails because of another
// transaction (deadlock 1213, lock wait timeout 1205, and 1020 on a MariaDB with
// innodb_snapshot_isolation) says nothing about the token: roll back, which a lock wait timeout alone
// does not do, and run the transaction again.
func StampMySQL(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := check(resource, token); err != nil {
		return err
	}
	if len(resource) > maxResourceMySQL {
		return fmt.Errorf("fence: %s: %w: a resource of %d bytes, want at most %d",
			resource, ErrInvalid, len(resource), maxResourceMySQL)
	}
	if _, err := tx.ExecContext(ctx, raiseMySQL, resource, int64(token), int64(token)); err != nil {
		return fmt.Errorf("fence: stamp %s: %w", resource, err)
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, readMySQL, resource).Scan(&seen); err != nil {
		return fmt.Errorf("fence: stamp %s: %w", resource, err)
	}
	return compare(resource, token, uint64(seen))
}
