//go:build unix

package fence_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v5"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// docs/fencing.md quotes the functions of this file.

func ofAccount(ctx context.Context, db *sql.DB, lock *quorum.Lock) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.Stamp(ctx, tx, "account:42", lock.Token()); err != nil {
		return err
	}
	// read and write, then
	return tx.Commit()
}

func ofRow(ctx context.Context, tx pgx.Tx, lock *quorum.Lock) error {
	err := fence.StampRow(func(statement string, args ...any) fence.Row {
		return tx.QueryRow(ctx, statement, args...) // tx is a pgx.Tx
	}, "account:42", lock.Token())
	return err
}

func ofKey(ctx context.Context, conn redis.Conn, lock *quorum.Lock) error {
	_, err := fence.StampKey(ctx, conn, "account:42:token", lock.Token()) // before the first read
	if err != nil {
		return err
	}
	balance, err := redis.Int(conn.Do("GET", "account:42:balance"))
	if err != nil {
		return err
	}
	_, err = fence.StampKey(ctx, conn, "account:42:token", lock.Token(), // stamps and writes in one step
		fence.Command{Name: "SET", Args: []any{"account:42:balance", balance + 10}})
	return err
}

// documented is what the code of the documents gets with rising tokens, and with a lower one.
var documented = []struct {
	token uint64
	want  error
}{{7, nil}, {8, nil}, {7, fence.ErrFenced}}

// lockOf returns a lock with the token.
func lockOf(t *testing.T, token uint64) *quorum.Lock {
	lock, _ := quorum.FromContext(quorumtest.ContextWithToken(t.Context(), token, "invoice:42"), "invoice:42")
	return lock
}

// The code of the documents passes with rising tokens, and is refused with a lower one.
func TestDocuments(t *testing.T) {
	db := onSQLite("wal")(t).db
	store := onRedis(t)
	conn := testkit.Opened(redis.DialURL(store.url))(t)
	testkit.Got(conn.Do("SET", "account:42:balance", 100))(t)
	for _, test := range documented {
		ctx, lock := t.Context(), lockOf(t, test.token)
		for what, err := range map[string]error{
			"ofAccount": ofAccount(ctx, db, lock), "ofKey": ofKey(ctx, conn, lock),
		} {
			testkit.Is(t, err, test.want, what)
		}
	}
	balance, err := redis.Int(conn.Do("GET", "account:42:balance"))
	testkit.Check(t, err == nil && balance == 120, "balance %d, %v", balance, err)
}

func TestDocumentOfPgx(t *testing.T) {
	conn := testkit.Got(pgx.Connect(t.Context(), onPostgres("pgx", "read committed")(t).dsn))(t)
	defer conn.Close(context.Background())
	for _, test := range documented {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return ofRow(t.Context(), tx, lockOf(t, test.token)) })
		testkit.Is(t, err, test.want, test.token)
	}
}
