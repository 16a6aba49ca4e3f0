// Package examples has what the examples of several packages run on.
package examples

import (
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/canned"
)

// Resource returns a connection to a stand-in for the Redis server that holds what a lock protects, which ends with it. It
// has strings, and the transactions of its only client: no watch ever fails.
func Resource() redis.Conn {
	ours, theirs := net.Pipe()
	r := &resource{values: map[string]string{}}
	go canned.Serve(theirs, r.reply)
	return redis.NewConn(ours, 0, 0)
}

type resource struct {
	values map[string]string
	inStep bool
	step   []string // the replies to the commands since MULTI
}

func (r *resource) reply(command []string) string {
	reply := "+OK\r\n"
	switch name, args := strings.ToUpper(command[0]), command[1:]; {
	case name == "MULTI":
		r.inStep = true
		return reply
	case name == "EXEC":
		reply = fmt.Sprintf("*%d\r\n", len(r.step)) + strings.Join(r.step, "")
		r.inStep, r.step = false, nil
		return reply
	case name == "SET" && len(args) == 2:
		r.values[args[0]] = args[1]
	case name == "GET" && len(args) == 1:
		value, found := r.values[args[0]]
		if reply = "$-1\r\n"; found {
			reply = canned.Bulk(value)
		}
	case name != "WATCH" && name != "UNWATCH":
		return "-ERR the stand-in does not know " + name + "\r\n"
	}
	if r.inStep {
		r.step = append(r.step, reply)
		return "+QUEUED\r\n"
	}
	return reply
}
