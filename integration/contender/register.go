package contender

import (
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/quorumlock/quorumlock/internal/register"
)

const registerBound = 10 * time.Second // the register is not under test

// Access is a request to the register server: one JSON line.
type Access struct {
	Name  string
	Token uint64
	Write bool
	Value int
}

// Answer is the register server's reply: one JSON line.
type Answer struct {
	Value int
	Stale bool   // the token was refused
	Err   string // a failure of the server itself
}

// registerConn is a flow's connection to the register.
type registerConn struct {
	addr string
	conn net.Conn
	out  *json.Encoder
	in   *json.Decoder
}

func (r *registerConn) read(name string, token uint64) (int, error) {
	return r.do(Access{Name: name, Token: token})
}

func (r *registerConn) write(name string, token uint64, value int) error {
	_, err := r.do(Access{Name: name, Token: token, Write: true, Value: value})
	return err
}

// do asks once: a write without a reply must not be sent twice.
func (r *registerConn) do(a Access) (int, error) {
	if r.conn == nil {
		conn, err := net.DialTimeout("tcp", r.addr, registerBound)
		if err != nil {
			return 0, fmt.Errorf("contender: register: %w", err)
		}
		r.conn, r.out, r.in = conn, json.NewEncoder(conn), json.NewDecoder(conn)
	}
	var answer Answer
	err := r.out.Encode(a)
	if err == nil {
		err = r.in.Decode(&answer)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("contender: register: %w", err)
	case answer.Stale:
		return 0, register.ErrStale
	case answer.Err != "":
		return 0, fmt.Errorf("contender: register: %s", answer.Err)
	}
	return answer.Value, nil
}

func (r *registerConn) close() {
	if r.conn != nil {
		r.conn.Close()
	}
}
