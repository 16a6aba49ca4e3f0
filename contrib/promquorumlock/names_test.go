package promquorumlock_test

import (
	"net/url"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumlock/quorumlock/contrib/promquorumlock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/redlock"
)

// Names are any bytes, and a label is UTF-8: client_golang panics in the caller of TryLock otherwise.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"invoice:42", "\xff:1", "/run/\xfe.sock"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m := promquorumlock.New(promquorumlock.WithGroup(func(name string) string { return name }))
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		if l, err := redlock.Open([]string{"redis://127.0.0.1:1?name=" + url.QueryEscape(name)}); err == nil {
			defer l.Close()
			m.Observe(name, l)
			m.Observe(name+"\xfe", l) // not the same
		}
		m.Hooks().LockEnd(ctx, quorum.LockEvent{Names: []string{name}})
		m.Hooks().Renewed(quorum.RenewalEvent{Node: name, Renewed: 1})
		m.NodeHooks().StateChanged(node.StateEvent{Node: name})
		m.NodeHooks().ScriptEnded(node.ScriptEvent{Address: name})
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	})
}
