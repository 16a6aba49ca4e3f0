package quorumtest_test

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
)

// statement stands for code that reads the fencing token from its context.
func statement(ctx context.Context) string {
	lock, ok := quorum.FromContext(ctx, "invoice:42")
	if !ok {
		return "not locked"
	}
	const update = "UPDATE invoices SET state = 'paid', token = %[1]d WHERE id = 42 AND token <= %[1]d"
	return fmt.Sprintf(update, lock.Token())
}

func ExampleContextWithToken() {
	fmt.Println(statement(quorumtest.ContextWithToken(context.Background(), 7, "invoice:42")))
	// Output:
	// UPDATE invoices SET state = 'paid', token = 7 WHERE id = 42 AND token <= 7
}
