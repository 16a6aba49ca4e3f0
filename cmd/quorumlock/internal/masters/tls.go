package masters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
	"github.com/quorumlock/quorumlock/internal/redisconn"
	"github.com/quorumlock/quorumlock/node"
)

// tlsFiles are the files of a TLS client: the authorities that it trusts, and its certificate. Empty
// paths are the system's authorities, and no certificate.
type tlsFiles struct{ cacert, cert, key string }

func (f *tlsFiles) flags(flags *cli.Flags) {
	flags.Path("cacert", "trust the authorities in `FILE`, not the system's (for rediss URLs)", &f.cacert)
	flags.Path("cert", "present the certificate in `FILE`, for masters that ask for one", &f.cert)
	flags.Path("key", "its private key is in `FILE`", &f.key)
}

// take takes words such as cacert=/etc/tls/ca.crt out of a list of URLs. Flags come before them.
func (f *tlsFiles) take(words []string) (urls []string) {
	paths := map[string]*string{"cacert": &f.cacert, "cert": &f.cert, "key": &f.key}
	for _, word := range words {
		name, path, _ := strings.Cut(word, "=")
		switch at := paths[name]; {
		case at == nil:
			urls = append(urls, word)
		case *at == "":
			*at = path
		}
	}
	return urls
}

func (f *tlsFiles) options() ([]node.Option, error) {
	if *f == (tlsFiles{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.cacert != "" {
		text, err := os.ReadFile(f.cacert)
		if err != nil {
			return nil, fmt.Errorf("the authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the authorities: %s has no certificate in PEM", f.cacert)
		}
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		return nil, errors.New("-cert and -key belong together: a certificate, and its private key")
	case f.cert != "":
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("the certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return []node.Option{node.WithTLS(config)}, nil
}

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
