//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/quorumlock/quorumlock/internal/forward"
	"github.com/rs/zerolog"
)

// paths are one group of clients' ways to the masters: a proxy of its own in front of each, so that
// one group can be cut off, in one direction or both, and another not. A group's addresses stay
// when the server behind them is replaced.
type paths struct {
	group    string
	proxies  []*toxiproxy.Proxy
	forwards []*forward.Forward
}

// direction is the direction of the bytes that a fault on a path hits.
type direction string

const (
	requests direction = "upstream"
	replies  direction = "downstream"
)

func newPaths(group string, servers []server) (*paths, error) {
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &paths{group: group}
	for i, s := range servers {
		behind, err := forward.New(s.Addr())
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.forwards = append(p.forwards, behind)
		proxy := toxiproxy.NewProxy(api, fmt.Sprintf("%s-%d", group, i), "127.0.0.1:0", behind.Addr())
		if err := proxy.Start(); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.proxies = append(p.proxies, proxy)
	}
	return p, nil
}

// urls are those of the masters in these places, or in all.
func (p *paths) urls(places ...int) []string {
	var all []string
	for i, proxy := range p.proxies {
		all = append(all, "redis://"+proxy.Listen+asMember(i))
	}
	return pick(all, places)
}

// add puts a fault on the path to a master. Lost data stays lost: when the fault ends, the
// connections that it hit are closed.
func (p *paths) add(i int, d direction, kind, attributes string) error {
	text := fmt.Sprintf(`{"name": %q, "type": %q, "stream": %q, "attributes": {%s}}`, kind+"-"+string(d), kind, d, attributes)
	_, err := p.proxies[i].Toxics.AddToxicJson(strings.NewReader(text))
	return err
}

// lose loses all data in a direction.
func (p *paths) lose(i int, d direction) error { return p.add(i, d, "timeout", `"timeout": 0`) }

// delay delays the data in a direction.
func (p *paths) delay(i int, d direction, latency, jitter time.Duration) error {
	return p.add(i, d, "latency", fmt.Sprintf(`"latency": %d, "jitter": %d`, latency.Milliseconds(), jitter.Milliseconds()))
}

// heal ends all faults on the path to a master.
func (p *paths) heal(i int) {
	for _, toxic := range []string{"timeout-upstream", "timeout-downstream", "latency-upstream", "latency-downstream"} {
		_ = p.proxies[i].Toxics.RemoveToxic(context.Background(), toxic) // most do not exist
	}
}

// replace puts another server behind the address.
func (p *paths) replace(i int, by server) { p.forwards[i].Turn(by.Addr()) }

func (p *paths) close() error {
	for _, behind := range p.forwards {
		behind.Close()
	}
	for i, proxy := range p.proxies {
		p.heal(i)
		proxy.Stop()
	}
	return nil
}
