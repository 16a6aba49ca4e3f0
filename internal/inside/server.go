package inside

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/scripts"
)

// Server is the server of a node, for package operator.
type Server interface {
	// TakeConn takes a connection that no pipe uses.
	TakeConn(ctx context.Context) (redis.Conn, error)
	// Ask asks the server who it is. With refuses, it stops at a server that must not be a node.
	Ask(ctx context.Context, c redis.Conn, refuses bool) (redisconn.Info, *pipeline.Conn, error)
	// DialAgain dials the address n times more, at once. two is not nil if a connection leads to another master than the
	// process of that run id; err is not nil if one leads to no master.
	DialAgain(ctx context.Context, runID string, n int) (two, err error)
	// AskSentinels asks each Sentinel of the URL, if it has any. two is not nil if two of them name different masters, which
	// both are masters now; notes has each that names none.
	AskSentinels(ctx context.Context) (notes []string, two error)
	// Refuse returns why a server with this INFO must not be a node, or nil.
	Refuse(redisconn.Info) error
	// Look reads the marker.
	Look(ctx context.Context, c *pipeline.Conn, timeout time.Duration) (*scripts.Seen, error)
}
