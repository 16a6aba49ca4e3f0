//go:build unix

package fence_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// in runs fn in a transaction, which it commits if fn returns nil.
func in(t *testing.T, d *database, fn func(tx *sql.Tx) error) error {
	t.Helper()
	tx := testkit.Got(d.db.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (d *database) stamper(t *testing.T) func(token uint64) error {
	d.account(t, account)
	return func(token uint64) error {
		s, tx, err := d.stamped(t, token)
		defer s.close()
		if err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	}
}

// stamped returns a transaction that is open behind its stamp, of a session of its own, and what the
// stamp returned.
func (d *database) stamped(t *testing.T, token uint64) (*sqlSession, *sql.Tx, error) {
	s := d.open(t, func(string) {})
	tx := testkit.Got(s.db.BeginTx(t.Context(), nil))(t)
	return s, tx, s.stamp(t.Context(), tx, account, token)
}

func (s *store) stamper(t *testing.T) func(token uint64) error {
	return func(token uint64) error {
		_, err := fence.StampKey(t.Context(), s.conn, tokenKey(account), token)
		return err
	}
}

// Tokens may repeat and grow. A lower one is refused, with both tokens, and changes nothing.
func TestStamp(t *testing.T) {
	t.Parallel()
	for name, fresh := range resources() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stamp := fresh(t).stamper(t)
			const greatest = 1<<53 - 1
			for _, token := range []uint64{9, 9, 10, 10, greatest - 1} { // 9 and 10 differ from "9" and "10" in order
				must(t, stamp(token))
			}
			for range 2 {
				err := stamp(41)
				testkit.Is(t, err, fence.ErrFenced, "stamp")
				fenced, ok := errors.AsType[*fence.Error](err)
				testkit.Check(t, ok && fenced.Token == 41 && fenced.Seen == greatest-1 && strings.Contains(fenced.Resource, "42"),
					"%+v", fenced)
			}
			must(t, stamp(greatest))
			for _, token := range []uint64{0, greatest + 1} {
				testkit.Is(t, stamp(token), fence.ErrInvalid, token)
			}
			must(t, stamp(greatest)) // the invalid one left no trace
		})
	}
}

// A stamp keeps another one on the same resource waiting until its transaction ends, even if it is
// the first on the resource, and when it was refused.
func TestStampHoldsItsResource(t *testing.T) {
	t.Parallel()
	for name, fresh := range guards {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := fresh(t)
			d.account(t, account)
			stamp := d.stamper(t)
			for _, first := range []uint64{5, 7, 6} { // fresh, greater, refused
				s, tx, err := d.stamped(t, first)
				testkit.Check(t, errors.Is(err, fence.ErrFenced) == (first == 6), "token %d: %v", first, err)
				got := make(chan error, 1)
				go func() { got <- stamp(7) }()
				if d.driver == "sqlite" {
					err := <-got
					testkit.Check(t, again(err), "during a transaction with token %d: %v, want SQLITE_BUSY", first, err)
					go func() { got <- nil }()
				} else if !poll.Until(soon, func() bool { return d.waiting(t) == 1 }) {
					t.Errorf("no stamp waits for the transaction with token %d", first)
				}
				must(t, tx.Rollback())
				s.close()
				err = <-got
				testkit.Check(t, err == nil || again(err), "after the transaction with token %d: %v", first, err)
				must(t, stamp(7))
			}
		})
	}
}

// waiting counts the transactions that wait for a lock on this database's tables.
func (d *database) waiting(t *testing.T) (n int) {
	t.Helper()
	if d.driver == "mysql" {
		return waitingInMariaDB(t, d.db)
	}
	must(t, d.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND (query LIKE '%quorumlock_fences%' OR query LIKE '%UPDATE accounts%')
		AND pid IN (SELECT pid FROM pg_locks JOIN pg_class ON relation = pg_class.oid
			WHERE relnamespace = current_schema()::regnamespace)`).Scan(&n))
	return n
}

// A stamp waits for no other resource's, in either order of the index, new or not.
func TestResourcesAreApart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"PostgreSQL, lib/pq", "MariaDB, repeatable read", "MariaDB, serializable"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := guards[name](t)
			s := d.open(t, func(string) {})
			defer s.close()
			ctx := testkit.Within(t, soon)
			for range 2 { // new, and there
				for _, order := range [][]int{{2, 1}, {2, 3}, {4, 2}} {
					must(t, in(t, d, func(tx *sql.Tx) error {
						if err := s.stamp(ctx, tx, order[0], 41); err != nil {
							return err
						}
						return in(t, d, func(other *sql.Tx) error { return s.stamp(ctx, other, order[1], 41) })
					}))
				}
			}
		})
	}
}

func TestColumn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"PostgreSQL, a column", "SQLite, a column"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := guards[name](t)
			column := fence.Column{Table: "accounts", Key: "id", Token: "token"}
			stamp := func(c fence.Column, key any) error {
				return in(t, d, func(tx *sql.Tx) error { return c.Stamp(t.Context(), tx, key, 41) })
			}
			err := stamp(column, 1)
			testkit.Check(t, errors.Is(err, sql.ErrNoRows) && !errors.Is(err, fence.ErrFenced),
				"without a row: %v, want ErrNoRows", err)
			d.account(t, 1)
			d.account(t, 2)
			must(t, stamp(column, 1)) // the token was NULL
			var untouched sql.NullInt64
			must(t, d.db.QueryRowContext(t.Context(), "SELECT token FROM accounts WHERE id = 2").Scan(&untouched))
			testkit.Check(t, !untouched.Valid, "the stamp of one row stamped another, with %d", untouched.Int64)
			testkit.Is(t, stamp(fence.Column{Table: "accounts", Key: "id"}, 1), fence.ErrInvalid, "without a column")
			err = stamp(fence.Column{Table: "accounts", Key: "id", Token: "absent"}, 1)
			testkit.Check(t, err != nil && strings.Contains(err.Error(), "fence: stamp accounts 1: "),
				"with an absent column: %v", err)
			// A key that fits several rows: any one of them refuses.
			for _, refuses := range []int{1, 2} {
				testkit.Got(d.db.ExecContext(t.Context(),
					"UPDATE accounts SET token = CASE WHEN id = $1 THEN 50 ELSE 1 END", refuses))(t)
				err = stamp(fence.Column{Table: "accounts", Key: "balance", Token: "token"}, opening)
				fenced, ok := errors.AsType[*fence.Error](err)
				testkit.Check(t, ok && fenced.Seen == 50, "row %d of two has seen 50: %v", refuses, err)
			}
		})
	}
}
