package masters

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// TLSHint says that a URL has the wrong scheme, for a master that did not answer: it tries the port
// with TLS for a URL without, and without for a URL with. It sends no credentials. It returns
// nothing if the scheme is not to blame.
func TLSHint(ctx context.Context, n *node.Node, url string, err error) string {
	if !errors.Is(err, node.ErrTimeout) && !redisconn.IsBroken(err) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout())
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.Address())
	if err != nil {
		return ""
	}
	defer raw.Close()
	deadline, _ := ctx.Deadline()
	raw.SetDeadline(deadline)
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "redis", "valkey":
		// The certificate does not matter: nothing is sent.
		var alert tls.AlertError // from a server that wants a client's certificate, say
		err := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
		if err == nil || errors.As(err, &alert) {
			return "the port speaks TLS: the URL should begin with " + scheme + "s://"
		}
	case "rediss", "valkeys":
		reply := make([]byte, 1)
		if _, err := raw.Write([]byte("PING\r\n")); err != nil {
			return ""
		}
		if _, err := raw.Read(reply); err == nil && (reply[0] == '+' || reply[0] == '-') {
			return "the port speaks without TLS: the URL should begin with " + strings.TrimSuffix(scheme, "s") + "://"
		}
	}
	return ""
}

// addHints adds to the findings why masters did not answer, as far as their URLs show.
func addHints(ctx context.Context, found []Finding, nodes []*node.Node, urls []string) {
	var asking sync.WaitGroup
	for i := range found {
		if found[i].Err != nil {
			asking.Go(func() { found[i].hint = TLSHint(ctx, nodes[i], urls[i], found[i].Err) })
		}
	}
	asking.Wait()
}
