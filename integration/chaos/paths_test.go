//go:build unix

package chaos

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/forward"
)

// paths are one group of clients' ways to the masters: one of its own to each, so that
// one group can be cut off, in one direction or both, and another not. A group's addresses stay
// when the server behind them is replaced.
type paths struct {
	group    string
	forwards []*forward.Forward
}

func newPaths(group string, servers []server) (*paths, error) {
	p := &paths{group: group}
	for _, s := range servers {
		f, err := forward.New(s.Addr())
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.forwards = append(p.forwards, f)
	}
	return p, nil
}

// urls are those of the masters in these places, or in all.
func (p *paths) urls(places ...int) []string {
	var all []string
	for i, f := range p.forwards {
		all = append(all, "redis://"+f.Addr()+asMember(i))
	}
	return pick(all, places)
}

// heal ends all faults on the path to a master.
func (p *paths) heal(i int) { p.forwards[i].Heal() }

// replace puts another server behind the address.
func (p *paths) replace(i int, by server) { p.forwards[i].Turn(by.Addr()) }

func (p *paths) close() error {
	for _, f := range p.forwards {
		f.Close()
	}
	return nil
}
