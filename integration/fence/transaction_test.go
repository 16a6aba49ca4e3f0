//go:build unix

package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/quorumlock/quorumlock/fence"
	"modernc.org/sqlite"
)

// connection is a holder's connection to a database, by database/sql or by pgx.
type connection interface {
	begin(ctx context.Context) (tx, error)
	close()
}

// tx is a transaction. Its statements have no parameters, since databases differ in these.
type tx interface {
	stamp(ctx context.Context, account int, token uint64) error
	queryRow(ctx context.Context, statement string) fence.Row
	exec(ctx context.Context, statement string) error
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

func resourceOf(account int) string { return fmt.Sprint("account:", account) }

type sqlConnection struct {
	db     *sql.DB
	driver string
	column bool
}

func (c sqlConnection) begin(ctx context.Context) (tx, error) {
	began, err := c.db.BeginTx(ctx, nil)
	return sqlTx{began, c}, err
}

func (c sqlConnection) close() { c.db.Close() }

type sqlTx struct {
	*sql.Tx
	of sqlConnection
}

func (x sqlTx) stamp(ctx context.Context, account int, token uint64) error {
	switch {
	case x.of.column:
		return fence.Column{Table: "accounts", Key: "id", Token: "token"}.Stamp(ctx, x.Tx, account, token)
	case x.of.driver == "mysql":
		return fence.StampMySQL(ctx, x.Tx, resourceOf(account), token)
	}
	return fence.Stamp(ctx, x.Tx, resourceOf(account), token)
}

func (x sqlTx) queryRow(ctx context.Context, statement string) fence.Row {
	return x.QueryRowContext(ctx, statement)
}

func (x sqlTx) exec(ctx context.Context, statement string) error {
	_, err := x.ExecContext(ctx, statement)
	return err
}

func (x sqlTx) commit(context.Context) error   { return x.Commit() }
func (x sqlTx) rollback(context.Context) error { return x.Rollback() }

type pgxConnection struct{ conn *pgx.Conn }

func (c pgxConnection) begin(ctx context.Context) (tx, error) {
	began, err := c.conn.Begin(ctx)
	return pgxTx{began}, err
}

func (c pgxConnection) close() { c.conn.Close(context.Background()) }

type pgxTx struct{ pgx.Tx }

func (x pgxTx) stamp(ctx context.Context, account int, token uint64) error {
	return fence.StampRow(func(statement string, args ...any) fence.Row {
		return x.QueryRow(ctx, statement, args...)
	}, resourceOf(account), token)
}

func (x pgxTx) queryRow(ctx context.Context, statement string) fence.Row {
	return x.QueryRow(ctx, statement)
}

func (x pgxTx) exec(ctx context.Context, statement string) error {
	_, err := x.Exec(ctx, statement)
	return err
}

func (x pgxTx) commit(ctx context.Context) error   { return x.Commit(ctx) }
func (x pgxTx) rollback(ctx context.Context) error { return x.Rollback(ctx) }

// sqlSession is a session of a database.
type sqlSession struct {
	connection
	step func(string)
}

func openSQL(to target, step func(string)) (*sqlSession, error) {
	if to.Kind == "pgx.Tx" {
		conn, err := pgx.Connect(context.Background(), to.Address)
		return &sqlSession{pgxConnection{conn}, step}, err
	}
	driver, column := strings.CutSuffix(to.Kind, " column")
	db, err := sql.Open(driver, to.Address)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &sqlSession{sqlConnection{db, driver, column}, step}, nil
}

// transaction is one transaction of a session: its statements fail after the first one that does.
type transaction struct {
	*sqlSession
	ctx     context.Context
	tx      tx
	account int
	token   uint64
}

func (x *transaction) stamp() error {
	x.step("stamp")
	return x.tx.stamp(x.ctx, x.account, x.token)
}

func (x *transaction) read(balance *int) error {
	x.step("read")
	return x.tx.queryRow(x.ctx, fmt.Sprintf("SELECT balance FROM accounts WHERE id = %d", x.account)).Scan(balance)
}

func (x *transaction) write(w write) error {
	x.step("write")
	if err := x.tx.exec(x.ctx, fmt.Sprintf("UPDATE accounts SET balance = %d WHERE id = %d", w.After, x.account)); err != nil {
		return err
	}
	return x.tx.exec(x.ctx, fmt.Sprintf("INSERT INTO writes (account, token, old, new) VALUES (%d, %d, %d, %d)",
		x.account, w.Token, w.Before, w.After))
}

func (s *sqlSession) work(ctx context.Context, account int, token uint64, by order, amounts ...int) ([]write, error) {
	var balance int
	var done []write
	x := &transaction{s, ctx, nil, account, token}
	if by != oneStep && by != readFirstOne {
		if err := s.transact(x, by == rolledBack, func() error {
			if by == stampFirst || by == rolledBack || by == stampOnlyRead {
				if err := x.stamp(); err != nil {
					return err
				}
			}
			return x.read(&balance)
		}); err != nil {
			return nil, err
		}
	}
	for _, amount := range amounts {
		var w write
		err := s.transact(x, false, func() error {
			var steps []func() error
			switch by {
			case oneStep:
				steps = []func() error{x.stamp, func() error { return x.read(&balance) }}
			case readFirstOne:
				steps = []func() error{func() error { return x.read(&balance) }, x.stamp}
			case unguarded, stampOnlyRead:
			default:
				steps = []func() error{x.stamp}
			}
			for _, do := range steps {
				if err := do(); err != nil {
					return err
				}
			}
			w = write{token, balance, balance + amount}
			return x.write(w)
		})
		if err != nil {
			return done, err
		}
		done = append(done, w)
		balance = w.After
	}
	return done, nil
}

// transact runs a transaction until it is not refused for the sake of others.
func (s *sqlSession) transact(x *transaction, undo bool, statements func() error) error {
	for {
		s.step("begin")
		tx, err := s.begin(x.ctx)
		if again(err) { // a new connection to SQLite waits for a commit
			continue
		}
		if err != nil {
			return err
		}
		x.tx = tx
		err = statements()
		switch {
		case err == nil && !undo:
			s.step("commit")
			if err = tx.commit(x.ctx); err != nil {
				_ = tx.rollback(x.ctx) // SQLite keeps the transaction when a commit has to wait
			}
		default:
			s.step("rollback")
			_ = tx.rollback(x.ctx)
		}
		if !again(err) {
			return err
		}
	}
}

// again reports whether a transaction failed only because of others that ran beside it.
func again(err error) bool {
	var postgres interface{ SQLState() string }
	if errors.As(err, &postgres) {
		return postgres.SQLState() == "40001" || postgres.SQLState() == "40P01"
	}
	var maria *mysql.MySQLError
	if errors.As(err, &maria) { // a deadlock, a lock wait timeout, a record that changed since the snapshot
		return maria.Number == 1213 || maria.Number == 1205 || maria.Number == 1020
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == 5 // SQLITE_BUSY
}
