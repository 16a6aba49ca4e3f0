// Package clientnode has what the modules share that open nodes by the options of other clients.
package clientnode

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

const page = "https://github.com/quorumlock/quorumlock/blob/main/docs/clients.md#what-is-refused"

// Module is such a module, and the names of two of the client's fields. Its errors wrap [node.ErrInvalid].
type Module struct{ Name, Address, Database string }

// Open opens a node at a URL. address names it in the error, and taken are the options that follow from the client's.
func (m Module) Open(u *url.URL, address, clientName string, config *tls.Config, taken, own []node.Option) (*node.Node, error) {
	if clientName != "" {
		taken = append(taken, node.WithClientName(clientName))
	}
	taken = append(taken, node.WithTLS(config))
	n, err := node.Open(u.String(), append(taken, own...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.Name, address, err)
	}
	return n, nil
}

// CheckFields returns an error for the first of these fields that is set in a client's options. Each comes with the reason.
func (m Module) CheckFields(options any, refused [][2]string) error {
	for _, r := range refused {
		if !reflect.Indirect(reflect.ValueOf(options)).FieldByName(r[0]).IsZero() {
			return m.Refuse(r[0], r[1])
		}
	}
	return nil
}

// Timeout returns the option that the shortest of the client's timeouts makes; none if none is set.
func (m Module) Timeout(fields string, timeouts ...time.Duration) (none []node.Option, err error) {
	var shortest time.Duration
	for _, d := range timeouts {
		if d < 0 {
			return nil, m.Refuse(fields, "a node always has a timeout")
		}
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	if shortest == 0 {
		return none, nil
	}
	return []node.Option{node.WithTimeout(shortest)}, nil
}

// URL returns a node's URL without credentials. The address is host:port, or the path of a unix socket.
func (m Module) URL(address string, isUnix, isTLS bool, database int) (*url.URL, error) {
	if database < 0 {
		return nil, m.Invalidf("%s %d is negative", m.Database, database)
	}
	u := &url.URL{Scheme: "redis", RawQuery: "db=" + strconv.Itoa(database)}
	isPath := isUnix && strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
	switch {
	case !isPath && (strings.ContainsAny(address, "@?") || strings.Contains(address, "://")):
		return nil, m.Invalidf("%s is no address (not shown: it may hold a password): an address is host:port, "+
			"or the path of a unix socket; a URL is for the client's ParseURL, or for node.Open", m.Address)
	case isUnix && isTLS:
		return nil, m.Refuse("TLSConfig", "a node uses unix sockets without TLS")
	case isUnix:
		u.Scheme, u.Path = "unix", address
		u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // else it could end a password
		return u, nil
	case isTLS:
		u.Scheme = "rediss"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, m.Invalidf("%s %q is not host:port", m.Address, address)
	}
	u.Host = net.JoinHostPort(cmp.Or(host, "localhost"), port)
	return u, nil
}

// Sentinel is what a client's options say of Sentinel.
type Sentinel struct {
	Addresses                  []string
	Master, Username, Password string
}

// SentinelURL is [Module.URL] for a master that Sentinel names.
func (m Module) SentinelURL(s Sentinel, isTLS bool, database int) (u *url.URL, err error) {
	if len(s.Addresses) == 0 {
		return nil, m.Invalidf("%s names no sentinel", m.Address)
	}
	var hosts []string
	for _, address := range s.Addresses {
		if u, err = m.URL(address, false, isTLS, database); err != nil {
			return nil, err
		}
		hosts = append(hosts, u.Host)
	}
	u.Scheme, u.Host = u.Scheme+"+sentinel", strings.Join(hosts, ",")
	u.Path, u.RawPath = "/"+s.Master, "/"+url.PathEscape(s.Master)
	query := u.Query()
	if s.Username != "" {
		query.Set("sentinel-username", s.Username)
	}
	if s.Password != "" {
		query.Set("sentinel-password", s.Password)
	}
	u.RawQuery = query.Encode()
	return u, nil
}

// Refuse returns the error for a field that a node cannot take over.
func (m Module) Refuse(field, reason string) error {
	return m.Invalidf("%s: %s (%s)", field, reason, page)
}

// Invalidf returns an error.
func (m Module) Invalidf(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", m.Name, node.ErrInvalid, fmt.Sprintf(format, args...))
}
