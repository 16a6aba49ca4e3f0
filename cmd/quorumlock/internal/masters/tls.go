package masters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// TLSHint says which certificate is missing, or that a URL has the wrong scheme, for a master that did not answer: it
// tries the port with TLS for a URL without, and without for a URL with. It sends no credentials. It returns nothing
// if neither is the cause.
func TLSHint(ctx context.Context, n *node.Node, url string, err error) string {
	if hint := certificateHint(err); hint != "" {
		return hint
	}
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

func certificateHint(err error) string {
	switch said := err.Error(); {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "name the authority of the master's certificate by -cacert FILE, or by cacert=FILE in the list of URLs"
	case errors.As(err, new(x509.HostnameError)):
		return "the master's certificate has another name: the URL may name it, by ?server-name=HOST"
	case strings.Contains(said, "tls: certificate required"), strings.Contains(said, "tls: bad certificate"):
		return "the master wants a certificate of its clients: -cert FILE and -key FILE, or cert=FILE key=FILE in the list of URLs"
	case strings.Contains(said, "tls: unsupported certificate"):
		return "the master refuses the certificate of -cert: it must be for clients (extended key usage clientAuth)"
	case strings.Contains(said, "tls: unknown certificate authority"):
		return "the master does not trust the authority of -cert's certificate"
	}
	return ""
}
