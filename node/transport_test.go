package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/node"
)

func TestAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "socket") // the path of t.TempDir is too long for a socket
	must(t, err)
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

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	roots := writeCertificate(t, dir, "localhost")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	must(t, err)
	must(t, free.Close())
	fleet, err := redistest.StartReal(1, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"), "--tls-auth-clients", "no")
	if errors.Is(err, redistest.ErrNoServer) || err != nil && strings.Contains(err.Error(), "tls") {
		t.Skipf("needs a redis-server with TLS: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, fleet.Stop()) })

	trusting := func(roots *x509.CertPool, name string) node.Option {
		return node.WithTLS(&tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12})
	}
	for _, scheme := range []string{"rediss", "valkeys"} {
		n := open(t, scheme+"://localhost:"+port, trusting(roots, ""))
		mustGrant(t, do(t, n, acquire(scheme, "o:1")))
		if report, err := n.Check(t.Context()); err != nil || report.Role != "master" {
			t.Errorf("Check: %+v, %v", report, err)
		}
	}
	mustGrant(t, do(t, open(t, "rediss://127.0.0.1:"+port, trusting(roots, "localhost")), acquire("named", "o:1")))

	for what, n := range map[string]*node.Node{
		"not trusted":       open(t, "rediss://localhost:"+port),
		"another name":      open(t, "rediss://localhost:"+port, trusting(roots, "example.org")),
		"the address":       open(t, "rediss://127.0.0.1:"+port, trusting(roots, "")),
		"TLS without TLS":   open(t, strings.Replace(fleet.Masters[0].URL(), "redis:", "rediss:", 1), trusting(roots, "localhost")),
		"no TLS where it's": open(t, "redis://localhost:"+port),
	} {
		if r := do(t, n, acquire("k", "o:1")); !errors.Is(r.Err, node.ErrDown) || r.Sent {
			t.Errorf("%s: %v %v", what, r.Reply, r.Err)
		}
	}

	// The handshake with a silent server ends at the timeout.
	dumb, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer dumb.Close()
	n := open(t, "rediss://"+dumb.Addr().String())
	began := time.Now()
	mustFail(t, n, do(t, n, acquire("k", "o:1")).Err, node.ErrTimeout)
	took(t, "the handshake", began, timeout, timeout)
}

// writeCertificate writes cert.pem and key.pem for that name, and returns the pool that trusts
// them.
func writeCertificate(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	must(t, os.WriteFile(filepath.Join(dir, "cert.pem"), certPEM, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return roots
}
