// Package canned serves connections with replies that a test chooses.
package canned

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/internal/fakeredis"
)

const (
	HangUp = "hang up" // a reply, or its end, that closes the connection
	Silent = ""        // no reply at all
)

// Serve replies to each command with the result of handle, until the connection ends. Replies to commands that arrived
// together leave together.
func Serve(conn net.Conn, handle func(args []string) string) {
	defer conn.Close()
	in, replies := bufio.NewReader(conn), ""
	for {
		args, err := fakeredis.ReadCommand(in)
		if err != nil {
			return
		}
		reply := handle(args)
		replies += strings.TrimSuffix(reply, HangUp)
		hangsUp := strings.HasSuffix(reply, HangUp)
		if replies != "" && (hangsUp || in.Buffered() == 0) {
			if _, err := io.WriteString(conn, replies); err != nil {
				return
			}
			replies = ""
		}
		if hangsUp {
			return
		}
	}
}

// Listen serves connections to a port of this machine, and returns its address. stop waits until no
// handle runs; the test's end calls it, too.
func Listen(t testing.TB, handle func(args []string) string) (addr string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			running.Go(func() { Serve(conn, handle) })
		}
	})
	stop = func() {
		listener.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	}
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// Bulk returns the reply that is a text.
func Bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// Array returns the reply that has these texts and whole numbers.
func Array(parts ...any) string {
	reply := fmt.Sprintf("*%d\r\n", len(parts))
	for _, part := range parts {
		if s, ok := part.(string); ok {
			reply += Bulk(s)
		} else {
			reply += fmt.Sprintf(":%d\r\n", part)
		}
	}
	return reply
}
