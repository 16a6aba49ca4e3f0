package redistest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/child"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// pretend makes a program the server: it answers --version with that text.
func pretend(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	testkit.Must(t, child.WriteProgram(path, fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)))
	t.Setenv(redistest.BinaryVariable, path)
	return path
}

// Tests must not be skipped for a mistake in the variable.
func TestAServerThatIsNamedAndCannotBeUsed(t *testing.T) {
	t.Setenv(redistest.BinaryVariable, filepath.Join(t.TempDir(), "none"))
	_, err := redistest.FindBinary()
	testkit.Check(t, err != nil && !errors.Is(err, redistest.ErrNoServer) && strings.Contains(err.Error(), redistest.BinaryVariable),
		"a path without a file: %v", err)
	pretend(t, "hello")
	_, err = redistest.FindBinary()
	testkit.Check(t, err != nil && !errors.Is(err, redistest.ErrNoServer), "a program that is no server: %v", err)
}

// A server without TLS fails in words of its version, and none of them is about a certificate.
func TestTLSIsWhatTheServerWasBuiltWith(t *testing.T) {
	for says, lacks := range map[string]bool{
		"# Failed to load certificate: none.pem: error:80000002: No such file": false,
		">>> 'tls-port 6379' Bad directive or wrong number of arguments":       true,
		"# Failed to configure TLS. Check logs for more info.":                 true,
	} {
		path := pretend(t, "")
		testkit.Must(t, child.WriteProgram(path, fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v=7.0.15 sha=0' && exit\ncat <<'end'\n%s\nend\nexit 1\n", says)))
		reason, err := redistest.Lacks(redistest.TLS)
		testkit.Check(t, err == nil && (reason != "") == lacks && (!lacks || strings.Contains(reason, "built without TLS")),
			"%s: %q, %v", says, reason, err)
	}
}

func TestWhatAVersionLacks(t *testing.T) {
	for version, lacks := range map[string]bool{
		"Redis server v=6.0.20 sha=0":          true,
		"Redis server v=6.2.0 sha=0":           false,
		"Redis server v=7.4.1 sha=0":           false,
		"Redis server v=10.0.0 sha=0":          false,
		"Redis server v=255.255.255 sha=0":     false,
		"Redis server v=unstable sha=00000000": false,
		"Valkey server v=8.0.1 sha=0":          false,
	} {
		pretend(t, version)
		reason, err := redistest.Lacks(redistest.ClientInfo, redistest.ACLChannels)
		testkit.Check(t, err == nil && (reason != "") == lacks, "%s: lacks %q, %v", version, reason, err)
		testkit.Check(t, !lacks || reason == "redis-server 6.0.20 has no CLIENT INFO (that came with Redis 6.2)",
			"the reason is %q", reason)
	}
}
