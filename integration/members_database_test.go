package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/multilock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// An address that leads to another process on each host makes no list with others: two hosts would have one list, and
// not its masters.
func TestMembersOfSeveralHosts(t *testing.T) {
	t.Parallel()
	f := fleet(t, 3)
	const shared = "redis://192.0.2.1" // nobody answers there
	for list, refused := range map[[2]string]bool{
		{"redis://localhost:1", shared}:                       true,
		{"redis://localhost.localdomain:1", shared}:           true,
		{"redis://127.0.0.2:1/3", shared + "?name=b"}:         true,
		{"redis://[::1]:1", shared}:                           true,
		{"unix:///run/a.sock", shared}:                        true,
		{"redis://localhost:1?name=a", shared}:                false,
		{"redis://localhost:1", "unix:///run/b"}:              false,
		{"redis://localhost:1", "redis://127.0.0.1:2?name=b"}: false,
	} {
		l, err := multilock.Open(list[:], quorum.WithNodeOptions(node.WithTimeout(10*time.Millisecond)))
		if err == nil {
			must(t, l.Close())
		}
		if refused != errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%q: %v", list, err)
		}
	}
	if !redistest.Has(redistest.ClientInfo) {
		return // without it such a node needs a name
	}
	var mixed []*node.Node
	for i, m := range f.Masters {
		wrap := sameAddressOf
		if i > 0 {
			wrap = nil
		}
		mixed = append(mixed, overPool(t, m, wrap))
	}
	l, err := redlock.New(mixed)
	must(t, err)
	defer l.Close()
	_, err = l.Lock(t.Context(), "bridge")
	wantErr(t, err, quorum.ErrInvalid)
}
