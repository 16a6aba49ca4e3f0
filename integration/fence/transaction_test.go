//go:build unix

package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/quorumlock/quorumlock/fence"
	"modernc.org/sqlite"
)

func resourceOf(account int) string { return fmt.Sprint("account:", account) }

// sqlSession is a session of a database. Its statements have no parameters, since databases differ in these.
type sqlSession struct {
	of   *database
	db   *sql.DB // of its own
	step func(string)
}

func (s *sqlSession) close() { s.db.Close() }

func (s *sqlSession) stamp(ctx context.Context, tx *sql.Tx, account int, token uint64) error {
	switch {
	case s.of.column:
		return fence.Column{Table: "accounts", Key: "id", Token: "token"}.Stamp(ctx, tx, account, token)
	case s.of.driver == "mysql":
		return fence.StampMySQL(ctx, tx, resourceOf(account), token)
	}
	return fence.Stamp(ctx, tx, resourceOf(account), token)
}

// transaction is one transaction of a session: after a statement that fails the others do nothing.
type transaction struct {
	*sqlSession
	ctx     context.Context
	tx      *sql.Tx
	account int
	token   uint64
	err     error
}

func (x *transaction) do(step string, statement func() error) {
	if x.err == nil {
		x.step(step)
		x.err = statement()
	}
}

func (x *transaction) stamp() {
	x.do("stamp", func() error { return x.sqlSession.stamp(x.ctx, x.tx, x.account, x.token) })
}

func (x *transaction) read(balance *int) {
	x.do("read", func() error {
		return x.tx.QueryRowContext(x.ctx, fmt.Sprintf("SELECT balance FROM accounts WHERE id = %d", x.account)).Scan(balance)
	})
}

func (x *transaction) write(w write) {
	x.do("write", func() error {
		if _, err := x.tx.ExecContext(x.ctx, fmt.Sprintf("UPDATE accounts SET balance = %d WHERE id = %d", w.After, x.account)); err != nil {
			return err
		}
		_, err := x.tx.ExecContext(x.ctx, fmt.Sprintf("INSERT INTO writes (account, token, old, new) VALUES (%d, %d, %d, %d)",
			x.account, w.Token, w.Before, w.After))
		return err
	})
}

func (s *sqlSession) work(ctx context.Context, account int, token uint64, by order, amounts ...int) ([]write, error) {
	var balance int
	var done []write
	x := &transaction{sqlSession: s, ctx: ctx, account: account, token: token}
	if by != oneStep && by != readFirstOne {
		if err := s.transact(x, by == rolledBack, func() {
			if by == stampFirst || by == rolledBack || by == stampOnlyRead {
				x.stamp()
			}
			x.read(&balance)
		}); err != nil {
			return nil, err
		}
	}
	for _, amount := range amounts {
		var w write
		if err := s.transact(x, false, func() {
			if by == readFirstOne {
				x.read(&balance)
			}
			if by != unguarded && by != stampOnlyRead {
				x.stamp()
			}
			if by == oneStep {
				x.read(&balance)
			}
			w = write{token, balance, balance + amount}
			x.write(w)
		}); err != nil {
			return done, err
		}
		done = append(done, w)
		balance = w.After
	}
	return done, nil
}

// transact runs a transaction until it is not refused for the sake of others.
func (s *sqlSession) transact(x *transaction, undo bool, statements func()) error {
	for {
		s.step("begin")
		tx, err := s.db.BeginTx(x.ctx, nil)
		if again(err) { // a new connection to SQLite waits for a commit
			continue
		}
		if err != nil {
			return err
		}
		x.tx, x.err = tx, nil
		statements()
		if err = x.err; err == nil && !undo {
			s.step("commit")
			if err = tx.Commit(); err != nil {
				_ = tx.Rollback() // SQLite keeps the transaction when a commit has to wait
			}
		} else {
			s.step("rollback")
			_ = tx.Rollback()
		}
		if !again(err) {
			return err
		}
	}
}

// again reports whether a transaction failed only because of others that ran alongside it.
func again(err error) bool {
	type ofPostgres interface {
		error
		SQLState() string
	}
	if postgres, ok := errors.AsType[ofPostgres](err); ok {
		return postgres.SQLState() == "40001" || postgres.SQLState() == "40P01"
	}
	if maria, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// a deadlock, a lock wait timeout, a record that changed since the snapshot
		return maria.Number == 1213 || maria.Number == 1205 || maria.Number == 1020
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code()&0xff == 5 // SQLITE_BUSY
}
