//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/contrib/quorumchaos/history"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/internal/register"
)

// registers are the resources behind the locks: a fenced counter for each name, served to
// contenders over loopback.
type registers struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu  sync.Mutex
	all map[string]*counter
}

// counter is a register that each holder reads and then sets to the value plus one, so acknowledged
// writes can be counted.
type counter struct {
	register.Register
	acknowledged, stale int
}

func serveRegisters() (*registers, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &registers{listener: listener, all: map[string]*counter{}}
	server := rpc.NewServer()
	if err := server.RegisterName("Register", r); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.serving.Go(func() { server.ServeConn(conn) })
		}
	})
	return r, nil
}

// Ask is what contenders call.
func (r *registers) Ask(a contender.Access, answer *contender.Answer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[a.Name]
	if c == nil {
		c = &counter{}
		r.all[a.Name] = c
	}
	var text string
	var err error // only ever ErrStale
	if a.Write {
		err = c.Write(a.Token, strconv.Itoa(a.Value))
	} else {
		text, err = c.Read(a.Token)
	}
	switch {
	case err != nil:
		c.stale++
	case a.Write:
		c.acknowledged++
	}
	answer.Value, _ = strconv.Atoi(text) // 0 before the first write
	answer.Stale = err != nil
	return nil
}

// close ends the service. All contenders have ended.
func (r *registers) close() {
	r.listener.Close()
	r.serving.Wait()
}

// check returns the number of refused accesses, the number of acknowledged writes that the value
// lacks, and other violations.
func (r *registers) check() (stale, lost int, violations []history.Violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.all {
		stale += c.stale
		text, err := c.Read(1 << 60)
		value, _ := strconv.Atoi(text)
		if err != nil || value != c.acknowledged {
			lost += c.acknowledged - value
			violations = append(violations, history.Violation{Rule: "register", Detail: fmt.Sprintf("%s: %d writes acknowledged, the value is %q (%v)", name, c.acknowledged, text, err)})
		}
		for _, v := range c.Check() {
			violations = append(violations, history.Violation(v))
		}
	}
	return stale, lost, violations
}
