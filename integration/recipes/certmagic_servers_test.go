package recipes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"go.uber.org/zap"
)

// patience bounds what a busy machine may delay.
const patience = time.Minute

var must = testkit.Must

// server configures what one server has: a locker of its own, the directory that all share, and a CA.
func server(locker *quorum.Locker, dir string, ca certmagic.Issuer) (config *certmagic.Config, stop func()) {
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	shared := &certmagic.FileStorage{Path: dir}
	config = certmagic.New(cache, certmagic.Config{Storage: &lockedStorage{Storage: shared, locker: locker}})
	config.Issuers = []certmagic.Issuer{ca}
	return config, cache.Stop
}

// standIn is a CA in this process, which issues at once.
type standIn struct {
	root   *x509.Certificate
	key    *ecdsa.PrivateKey
	orders atomic.Int64
	issue  func() // is called for each order, if it is not nil
}

func newStandIn() *standIn {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return &standIn{root: &x509.Certificate{SerialNumber: big.NewInt(1)}, key: key}
}

func (ca *standIn) IssuerKey() string { return "stand-in" }

func (ca *standIn) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	serial := ca.orders.Add(1)
	if ca.issue != nil {
		ca.issue()
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.root, request.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &certmagic.IssuedCertificate{Certificate: chain}, nil
}
