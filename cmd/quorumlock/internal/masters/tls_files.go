package masters

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/cli"
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
