package node_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/operator"
)

func TestAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "socket") // the path of t.TempDir is too long for a socket
	testkit.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "redis.sock")
	m := startReal(t, "--unixsocket", path)
	if n := open(t, "unix://"+path, node.WithName("")); n.Name() != path {
		t.Errorf("named %q, want %q", n.Name(), path)
	}
	n := open(t, "unix://"+path)
	mustGrant(t, do(t, n, acquire("k", "o:1")))
	inThird := open(t, "unix://"+path+"?db=3")
	mustGrant(t, do(t, inThird, acquire("k", "o:2")))
	if !exists(t, m, "k") {
		t.Error("the key is not on that server")
	}
}

// tlsServer is a redis-server with a port for TLS.
type tlsServer struct {
	*redistest.Master
	port  string
	roots *x509.CertPool
}

// startTLS starts a server with a certificate for that host, or skips the test. Clients need none,
// unless args ask for one.
func startTLS(t *testing.T, host string, args ...string) tlsServer {
	t.Helper()
	m, _, port, roots := testkit.TLS(t, host, append([]string{"--tls-auth-clients", "no"}, args...)...)
	return tlsServer{m, port, roots}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, "localhost")
	port, roots := s.port, s.roots

	trusting := func(roots *x509.CertPool, name string) node.Option {
		return node.WithTLS(&tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12})
	}
	for _, scheme := range []string{"rediss", "valkeys"} {
		n := open(t, scheme+"://localhost:"+port, trusting(roots, ""))
		mustGrant(t, do(t, n, acquire(scheme, "o:1")))
		if report, err := operator.Check(t.Context(), n); err != nil || report.Role != "master" {
			t.Errorf("Check: %+v, %v", report, err)
		}
	}
	mustGrant(t, do(t, open(t, "rediss://127.0.0.1:"+port, trusting(roots, "localhost")), acquire("named", "o:1")))

	mustGrant(t, do(t, open(t, "rediss://127.0.0.1:"+port+"?server-name=localhost", trusting(roots, "")), acquire("by the URL", "o:1")))

	for what, n := range map[string]*node.Node{
		"not trusted":       open(t, "rediss://localhost:"+port, node.WithTimeout(timeout)),
		"another name":      open(t, "rediss://localhost:"+port, trusting(roots, "example.org"), node.WithTimeout(timeout)),
		"the address":       open(t, "rediss://127.0.0.1:"+port, trusting(roots, ""), node.WithTimeout(timeout)),
		"TLS without TLS":   open(t, strings.Replace(s.URL(), "redis:", "rediss:", 1), trusting(roots, "localhost"), node.WithTimeout(timeout)),
		"no TLS where it's": open(t, "redis://localhost:"+port, node.WithTimeout(timeout)),
	} {
		if r := do(t, n, acquire("k", "o:1")); !errors.Is(r.Err, node.ErrDown) || r.Sent {
			t.Errorf("%s: %v %v", what, r.Reply, r.Err)
		}
	}

	// The handshake with a silent server ends at the timeout.
	dumb, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer dumb.Close()
	n := open(t, "rediss://"+dumb.Addr().String(), node.WithTimeout(timeout))
	began := stopwatch(t)
	mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrTimeout)
	took(t, "the handshake", began, timeout, timeout)
}
