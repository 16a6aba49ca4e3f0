package contender

import (
	"fmt"
	"net/rpc"

	"github.com/quorumlock/quorumlock/internal/register"
)

// Access is a request to the register server.
type Access struct {
	Name  string
	Token uint64
	Write bool
	Value int
}

// Answer is the register server's reply.
type Answer struct {
	Value int
	Stale bool // the token was refused
}

// ask asks the register once: a write without a reply must not be sent twice.
func ask(server *rpc.Client, a Access) (int, error) {
	var answer Answer
	if err := server.Call("Register.Ask", a, &answer); err != nil {
		return 0, fmt.Errorf("contender: register: %w", err)
	}
	if answer.Stale {
		return 0, register.ErrStale
	}
	return answer.Value, nil
}
