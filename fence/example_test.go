package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/examples"
	"github.com/quorumlock/quorumlock/quorum"
)

// The token is in a column of the row that it guards.
func ExampleColumn_Stamp() {
	accounts := fence.Column{Table: "accounts", Key: "id", Token: "token"}
	deposit := func(ctx context.Context, tx *sql.Tx, lock *quorum.Lock) error {
		if err := accounts.Stamp(ctx, tx, 42, lock.Token()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 42")
		return err
	}
	_ = deposit // it needs a database
}

// The next holder stamps before it reads. So the write of the holder before it, which was paused, is
// refused, though the next holder has not written yet.
func ExampleStampKey() {
	conn := examples.Resource() // yours: redis.Dial, to the server that holds the balance
	defer conn.Close()
	ctx := context.Background()
	const paused, next = 41, 42 // lock.Token() of the two
	write := func(token uint64, balance int) error {
		_, err := fence.StampKey(ctx, conn, "account:42:token", token,
			fence.Command{Name: "SET", Args: []any{"account:42:balance", balance}})
		return err
	}

	fmt.Println(write(paused, 100))
	if _, err := fence.StampKey(ctx, conn, "account:42:token", next); err != nil {
		fmt.Println(err)
	}
	balance, err := redis.Int(conn.Do("GET", "account:42:balance"))
	fmt.Println(balance, err)

	err = write(paused, 110)
	var fenced *fence.Error
	fmt.Println(errors.Is(err, fence.ErrFenced), errors.As(err, &fenced) && fenced.Seen == next)
	fmt.Println(write(next, balance+5))
	// Output:
	// <nil>
	// 100 <nil>
	// true true
	// <nil>
}
