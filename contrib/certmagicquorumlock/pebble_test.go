package certmagicquorumlock_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// pebble is a process that is a CA. It believes that every challenge is met, and refuses some good nonces, as it
// does by default. It writes the lines "url" and its directory's address, "order" for each order that it has
// accepted, and "issued" and its serial number for each certificate. The response to an order waits for a line
// on standard input.
func pebble() error {
	logger := log.New(certificates{}, "", 0)
	store := db.NewMemoryStore()
	authority := ca.New(logger, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	front := wfe.New(logger, store, va.New(logger, 0, 0, false, "", store), authority,
		[]string{"pebble.example"}, false, false, 0, 0)
	goOn := make(chan bool)
	server := httptest.NewTLSServer(holdOrders(front.Handler(), goOn))
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(os.Getenv(rootVariable), root, 0o600); err != nil {
		return err
	}
	fmt.Println("url", server.URL+wfe.DirectoryPath)
	for {
		if _, err := fmt.Scanln(); err == io.EOF { // the test has ended
			return nil
		}
		goOn <- true
	}
}

// certificates is a log of which only the certificates are written.
type certificates struct{}

func (certificates) Write(line []byte) (int, error) {
	if _, rest, ok := strings.Cut(string(line), "Issued certificate serial "); ok {
		fmt.Println("issued", strings.Fields(rest)[0])
	}
	return len(line), nil
}

// holdOrders is a handler that lets its response to a new order wait.
func holdOrders(of http.Handler, goOn <-chan bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/order-plz" {
			of.ServeHTTP(w, r)
			return
		}
		response := httptest.NewRecorder()
		of.ServeHTTP(response, r)
		if response.Code == http.StatusCreated { // it was no nonce that is refused
			fmt.Println("order")
			<-goOn
		}
		for name, values := range response.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(response.Code)
		_, _ = io.Copy(w, bytes.NewReader(response.Body.Bytes())) // the client may be gone
	})
}
