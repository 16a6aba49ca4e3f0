package redisconn

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// proxied is a connection to a server whose answers the test writes.
func proxied(t *testing.T) (client redis.Conn, socket, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer listener.Close()
	socket, err = net.Dial("tcp", listener.Addr().String())
	testkit.Must(t, err)
	server, err = listener.Accept()
	testkit.Must(t, err)
	client = redis.NewConn(RefuseStrays(socket), 5*time.Second, 5*time.Second)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, socket, server
}

func awaitReadable(t *testing.T, socket net.Conn) {
	t.Helper()
	testkit.Check(t, poll.Until(5*time.Second, readable(socket)), "nothing has arrived")
}

// A reply that nobody asked for ends the connection before the next command could take it for its own.
func TestStrayReplies(t *testing.T) {
	const grant = ":1790000000000000\r\n"
	for what, answers := range map[string]string{
		"a second grant":                      grant + grant,
		"a second refusal":                    "*2\r\n$4\r\nheld\r\n:5\r\n" + "*2\r\n$4\r\nheld\r\n:5\r\n",
		"a second error":                      "-OOM no\r\n-OOM no\r\n",
		"the beginning of one":                grant + ":17",
		"the beginning of a text":             grant + "$4\r\n",
		"the beginning of an array":           grant + "*2\r\n",
		"the end of an array that was longer": "*1\r\n:1\r\n:2\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			client, socket, server := proxied(t)
			for _, c := range []string{"AUTH", "EVALSHA"} {
				testkit.Must(t, client.Send(c, "acquire", strings.Repeat("x", 5000), "subscribe"))
			}
			testkit.Must(t, client.Flush())
			_, err := server.Write([]byte("+OK\r\n" + answers[:len(answers)/2]))
			testkit.Must(t, err)
			_, err = client.Receive()
			testkit.Must(t, err)
			_, err = server.Write([]byte(answers[len(answers)/2:]))
			testkit.Must(t, err)
			client.Receive() // of the second command; the stray may have come with it
			if client.Err() == nil {
				awaitReadable(t, socket)
				_, err = client.Do("EVALSHA", "acquire")
			} else {
				err = client.Err()
			}
			testkit.Check(t, errors.Is(err, ErrStray), "the next command: %v", err)
		})
	}
}

// A reply that comes in pieces is one.
func TestRepliesInPiecesAreNoStrays(t *testing.T) {
	for _, reply := range []string{"$9\r\n123456789\r\n", "*2\r\n$4\r\nheld\r\n*1\r\n:5\r\n", "+OK\r\n", "-ERR no\r\n", ":17\r\n", "*0\r\n", "$-1\r\n"} {
		for chunk := 1; chunk <= len(reply); chunk++ {
			c := RefuseStrays(&stream{data: reply + reply, chunk: chunk})
			client := redis.NewConn(c, 0, 0)
			testkit.Must(t, client.Send("INFO"))
			testkit.Must(t, client.Send("INFO"))
			testkit.Must(t, client.Flush())
			for range 2 {
				client.Receive()
				testkit.Check(t, client.Err() == nil, "%q, %d bytes at a time: %v", reply, chunk, client.Err())
			}
		}
	}
}

// A command may be written while the end of a text is under way.
func TestACommandBehindHalfAReplyIsWritten(t *testing.T) {
	_, socket, server := proxied(t)
	c, read := RefuseStrays(socket), make([]byte, 100)
	for _, part := range []string{"+OK\r\n", "$6\r\n"} {
		_, err := c.Write([]byte("*1\r\n$4\r\nINFO\r\n"))
		testkit.Must(t, err)
		_, err = server.Write([]byte(part))
		testkit.Must(t, err)
		_, err = c.Read(read)
		testkit.Must(t, err)
	}
	_, err := server.Write([]byte("run_id\r\n"))
	testkit.Must(t, err)
	awaitReadable(t, socket)
	_, err = c.Write([]byte("*1\r\n$4\r\nINFO\r\n"))
	testkit.Must(t, err)
}

// What comes before the first reply, and the messages of a subscription, were not asked for either.
func TestRepliesThatAreNoStrays(t *testing.T) {
	client, socket, server := proxied(t)
	_, err := server.Write([]byte("-ERR max number of clients reached\r\n"))
	testkit.Must(t, err)
	awaitReadable(t, socket)
	_, err = client.Do("PING")
	testkit.Check(t, err != nil && strings.Contains(err.Error(), "max number of clients"), "%v", err)

	client, socket, server = proxied(t)
	_, err = server.Write([]byte("+OK\r\n"))
	testkit.Must(t, err)
	_, err = client.Do("AUTH", "secret")
	testkit.Must(t, err)
	sub := redis.PubSubConn{Conn: client}
	testkit.Must(t, sub.Subscribe("a"))
	message := "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n"
	_, err = server.Write([]byte("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"))
	testkit.Must(t, err)
	sub.Receive()
	for _, channel := range []string{"b", "c"} { // the first time there are as many replies as commands
		_, err = server.Write([]byte(message + message))
		testkit.Must(t, err)
		awaitReadable(t, socket)
		testkit.Must(t, sub.Subscribe(channel))
		if m, ok := sub.Receive().(redis.Message); !ok || m.Channel != "a" {
			t.Errorf("no message: %v", client.Err())
		}
		sub.Receive()
	}
}

// A command that is written in pieces, and with small letters, is the same.
func TestASubscriptionIsKnownInPieces(t *testing.T) {
	const command, messages = "*2\r\n$10\r\npsubscribe\r\n$1\r\na\r\n", ":1\r\n:2\r\n"
	for chunk := 1; chunk <= len(command); chunk++ {
		c := RefuseStrays(&stream{data: messages, chunk: len(messages)})
		for piece := range slices.Chunk([]byte(command), chunk) {
			_, err := c.Write(piece)
			testkit.Must(t, err)
		}
		_, err := c.Read(make([]byte, 100))
		testkit.Check(t, err == nil, "%d bytes at a time: %v", chunk, err)
	}
}
