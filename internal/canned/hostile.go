package canned

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redisconn"
)

// Garbage has replies that no Redis server sends. None announces a size that could be allocated.
func Garbage() map[string]string {
	return map[string]string{
		"a bulk too long":    "$2000000\r\n",
		"a negative bulk":    "$-2\r\n",
		"arrays for ever":    strings.Repeat("*1\r\n", 4000),
		"a line for ever":    "+" + strings.Repeat("x", 1<<20),
		"another protocol":   "HTTP/1.1 400 Bad Request\r\n\r\n",
		"RESP3":              "%1\r\n+a\r\n+b\r\n",
		"zero bytes":         strings.Repeat("\x00", 5000),
		"half a bulk":        "$100\r\nabc",
		"an end of line":     "\n",
		"empty lines":        "\r\n\r\n\r\n",
		"nothing":            Silent,
		"the end":            HangUp,
		"a bulk without end": "$2\r\nabcd\r\n",
	}
}

// Hostile is a server in memory for a fuzzer's bytes.
type Hostile struct {
	Sent     []byte
	Timeout  time.Duration
	Dribbles bool // it sends one byte at a time, a quarter of the timeout apart
	Serve    func(net.Conn)
	Serving  sync.WaitGroup
	dials    atomic.Int32
}

// Dial connects twice, so that a call that was cut is resent once, and then fails.
func (h *Hostile) Dial(context.Context) (redis.Conn, error) {
	if h.dials.Add(1) > 2 {
		return nil, errors.New("no more connections")
	}
	ours, theirs := net.Pipe()
	h.Serving.Go(func() {
		defer theirs.Close()
		h.Serve(theirs)
	})
	return redis.NewConn(redisconn.LimitReplies(ours), h.Timeout, h.Timeout), nil
}

// Send sends the bytes, and reports whether the client has taken them.
func (h *Hostile) Send(c net.Conn) bool {
	if !h.Dribbles {
		_, err := c.Write(h.Sent)
		return err == nil
	}
	for i := range h.Sent {
		time.Sleep(h.Timeout / 4)
		if _, err := c.Write(h.Sent[i : i+1]); err != nil {
			return false
		}
	}
	return true
}
