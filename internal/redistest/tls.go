package redistest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const certificateLife = time.Hour

// Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate("authority")
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return &Authority{cert, key}, err
}

func Roots(all ...*Authority) *x509.CertPool {
	roots := x509.NewCertPool()
	for _, a := range all {
		roots.AddCert(a.cert)
	}
	return roots
}

// WriteRoots writes the authorities' certificates to ca.pem in the directory, which is replaced in
// one step.
func WriteRoots(dir string, all ...*Authority) error {
	var blocks []*pem.Block
	for _, a := range all {
		blocks = append(blocks, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	}
	return writePEM(dir, "ca.pem", blocks...)
}

// Issue writes a new certificate for that host, and its key, into the directory: cert.pem and
// key.pem. Each file is replaced in one step.
func (a *Authority) Issue(dir, host string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := newTemplate(host)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	return errors.Join(err,
		writePEM(dir, "key.pem", &pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		writePEM(dir, "cert.pem", &pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

func newTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails: rand.Reader ends the program instead
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-certificateLife), NotAfter: time.Now().Add(certificateLife),
	}
}

func writePEM(dir, name string, blocks ...*pem.Block) error {
	path := filepath.Join(dir, name)
	var text []byte
	for _, block := range blocks {
		text = append(text, pem.EncodeToMemory(block)...)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// StartTLS starts one process that serves TLS at the returned port of 127.0.0.1, with the
// files that [Authority.Issue] and [WriteRoots] wrote into the directory, alongside the master's own
// port without TLS. Clients of TLS need a certificate by one of the roots. A test that calls it needs
// [TLS].
func StartTLS(dir string, args ...string) (fleet *Fleet, port string, err error) {
	number, held, err := ClaimPort()
	if err != nil {
		return nil, "", fmt.Errorf("redistest: find a free port: %w", err)
	}
	defer held.Close()
	port = fmt.Sprint(number)
	args = append([]string{"--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "ca.pem")}, args...)
	fleet, err = StartReal(1, args...)
	return fleet, port, err
}

// hasTLS reports whether a server was built with TLS: only then does it fail because it finds no
// certificate. Without TLS it fails in other words, which changed with versions.
func hasTLS(b Binary) (bool, error) {
	dir, err := os.MkdirTemp("", "quorumlock-tls")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	number, held, err := ClaimPort()
	if err != nil {
		return false, fmt.Errorf("redistest: find a free port: %w", err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(context.Background(), versionBound)
	defer cancel()
	none := filepath.Join(dir, "none.pem")
	ask := exec.CommandContext(ctx, b.Path, "--port", "0", "--tls-port", fmt.Sprint(number),
		"--tls-cert-file", none, "--tls-key-file", none, "--tls-ca-cert-file", none)
	ask.Dir = dir
	out, err := ask.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || !errors.As(err, &exit) {
		return false, fmt.Errorf("redistest: asking %s whether it has TLS: %v, %v, it printed %q", b, err, ctx.Err(), out)
	}
	return strings.Contains(string(out), "Failed to load certificate"), nil
}
