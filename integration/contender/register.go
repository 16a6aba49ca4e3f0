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
	Stale bool // the token was refused
}

// registerConn is a flow's connection to the register.
type registerConn struct {
	addr string
	conn net.Conn
	out  *json.Encoder
	in   *json.Decoder
}

// ask asks once: a write without a reply must not be sent twice.
func (r *registerConn) ask(a Access) (value int, err error) {
	if r.conn == nil {
		conn, err := net.DialTimeout("tcp", r.addr, registerBound)
		if err != nil {
			return 0, fmt.Errorf("contender: register: %w", err)
		}
		r.conn, r.out, r.in = conn, json.NewEncoder(conn), json.NewDecoder(conn)
	}
	var answer Answer
	err = r.out.Encode(a)
	if err == nil {
		err = r.in.Decode(&answer)
	}
	if err != nil {
		return 0, fmt.Errorf("contender: register: %w", err)
	}
	if answer.Stale {
		return 0, register.ErrStale
	}
	return answer.Value, nil
}

func (r *registerConn) close() {
	if r.conn != nil {
		r.conn.Close()
	}
}
