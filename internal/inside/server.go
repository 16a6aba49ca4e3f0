package inside

import (
	"context"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// Server is the server of a node, for package operator.
type Server interface {
	// TakeConn takes a connection that no pipe uses.
	TakeConn(ctx context.Context) (redis.Conn, error)
	// Ask asks the server who it is. With refuses, it stops at a server that must not be a node.
	Ask(ctx context.Context, c redis.Conn, refuses bool) (Info, *pipeline.Conn, error)
	// DialAgain dials the address n times more, at once. two is not nil if a connection leads to another master than the
	// process of that run id; err is not nil if one leads to no master.
	DialAgain(ctx context.Context, runID string, n int) (two, err error)
	// Refuse returns why a server with this INFO must not be a node, or nil.
	Refuse(Info) error
	// Look reads the marker.
	Look(ctx context.Context, c *pipeline.Conn, timeout time.Duration) (*scripts.LookReply, error)
}

// Info has the fields of INFO.
type Info map[string]string

// Number returns a field as a number; 0 if it isn't one.
func (i Info) Number(key string) uint64 {
	number, _ := strconv.ParseUint(i[key], 10, 63)
	return number
}

// Evicts reports whether the server may evict keys.
func (i Info) Evicts() bool {
	policy := i["maxmemory_policy"]
	return i.Number("maxmemory") > 0 && policy != "" && policy != "noeviction"
}
