package delay

import (
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

func TestMain(m *testing.M) {
	if IsServer() {
		os.Exit(Serve())
	}
	os.Exit(m.Run())
}

func TestRepliesAreLate(t *testing.T) {
	const delay = 30 * time.Millisecond
	fleet, err := redistest.StartEmbedded(2)
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Stop()
	proxies, err := Start(t.Context(), fleet.Masters, delay)
	if err != nil {
		t.Fatal(err)
	}
	if len(proxies.URLs) != 2 {
		t.Fatalf("%d proxies of 2 masters", len(proxies.URLs))
	}
	for _, url := range proxies.URLs {
		conn, err := redis.DialURL(url)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := conn.Do("PING"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < delay {
			t.Errorf("PING took %v, want at least %v", took, delay)
		}
		conn.Close()
	}
	if err := proxies.Close(); err != nil {
		t.Error(err)
	}
}
