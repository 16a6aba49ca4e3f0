package forward

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 20 * time.Second
	silence  = 200 * time.Millisecond // in which nothing may come
)

// echo is a server that answers each line with its name and the line.
func echo(t *testing.T, name string) (addr string) {
	t.Helper()
	listener := testkit.Got(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintf(conn, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func forwarder(t *testing.T, target string) *Forward {
	t.Helper()
	f := testkit.Got(New(target))(t)
	t.Cleanup(f.Close)
	return f
}

func connect(t *testing.T, f *Forward) net.Conn {
	t.Helper()
	conn := testkit.Got(net.Dial("tcp", f.Addr()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// say sends a line, and returns what is answered within the bound.
func say(conn net.Conn, bound time.Duration, line string) (string, error) {
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func mustSay(t *testing.T, conn net.Conn, line, want string) {
	t.Helper()
	got, err := say(conn, patience, line)
	testkit.Require(t, err == nil && got == want+"\n", "%q is answered with %q, %v; want %q", line, got, err, want)
}

// mustBeCut expects the end of a connection.
func mustBeCut(t *testing.T, conn net.Conn) {
	t.Helper()
	got, err := say(conn, patience, "there?")
	timeout, ok := err.(net.Error)
	testkit.Require(t, err != nil && (!ok || !timeout.Timeout()), "the connection is not cut: %q, %v", got, err)
}

// While everything is lost, connections stay open. What was lost never arrives.
func TestLose(t *testing.T) {
	f := forwarder(t, echo(t, "server"))
	old := connect(t, f)
	mustSay(t, old, "1", "server 1")
	f.Lose()
	late := connect(t, f)
	for _, conn := range []net.Conn{old, late} {
		got, err := say(conn, silence, "2")
		timeout, ok := err.(net.Error)
		testkit.Require(t, ok && timeout.Timeout(), "cut off, the server answers %q, %v", got, err)
	}
	f.Heal()
	mustBeCut(t, old)
	mustBeCut(t, late)
	mustSay(t, connect(t, f), "3", "server 3")
}

// connected returns a forwarder, and the ends of a connection over it.
func connected(t *testing.T) (f *Forward, client, server net.Conn) {
	t.Helper()
	listener := testkit.Got(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	f = forwarder(t, listener.Addr().String())
	client = connect(t, f)
	server = testkit.Got(listener.Accept())(t)
	t.Cleanup(func() { server.Close() })
	return f, client, server
}

// The server gets the requests whose replies are lost.
func TestLoseReplies(t *testing.T) {
	f, client, server := connected(t)
	f.LoseReplies()
	lost := make(chan error, 1)
	go func() {
		_, err := say(client, silence, "request")
		lost <- err
	}()
	mustSay(t, server, "reply", "request") // what the client says arrives
	err := <-lost
	testkit.Require(t, err != nil, "the reply arrives")
}

// A delay ends without a cut: nothing was lost.
func TestDelayRequests(t *testing.T) {
	f := forwarder(t, echo(t, "server"))
	conn := connect(t, f)
	mustSay(t, conn, "1", "server 1")
	for _, delay := range []func(){func() { f.DelayRequests(silence, 0) }, func() { f.DelaySome(1, silence) }} {
		delay()
		began := time.Now()
		mustSay(t, conn, "2", "server 2")
		took := time.Since(began)
		testkit.Check(t, took >= silence, "answered after %v, want %v", took, silence)
		f.Heal()
	}
	mustSay(t, conn, "3", "server 3")
}

// What is held back arrives when it is released, also on a connection whose client has left. Others go on.
func TestHold(t *testing.T) {
	f := forwarder(t, echo(t, "server"))
	other := connect(t, f)
	mustSay(t, other, "other", "server other")
	f.Hold("replica")
	conn := connect(t, f)
	got, err := say(conn, silence, "replica 1")
	testkit.Require(t, err != nil, "held back, and the server answers %q", got)
	mustSay(t, other, "2", "server 2")
	f.Release("replica")
	testkit.Must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	got, err = bufio.NewReader(conn).ReadString('\n')
	testkit.Check(t, got == "server replica 1\n" && err == nil, "released, the server answers %q, %v", got, err)
	f.Hold("") // all
	got, err = say(other, silence, "3")
	testkit.Require(t, err != nil, "held back, and the server answers %q", got)
}

// A server does not see the end of a connection that is held back.
func TestHoldTheEnd(t *testing.T) {
	f, client, server := connected(t)
	f.Hold("")
	testkit.Got(client.Write([]byte("late")))(t)
	client.Close()
	buffer := make([]byte, 9)
	testkit.Must(t, server.SetReadDeadline(time.Now().Add(silence)))
	n, err := server.Read(buffer)
	testkit.Require(t, errors.Is(err, os.ErrDeadlineExceeded), "held back, and the server reads %q, %v", buffer[:n], err)
	f.Release("")
	testkit.Must(t, server.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(server)
	testkit.Check(t, string(got) == "late" && err == nil, "released, the server reads %q, %v", got, err)
}
