package node_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/integration/masters"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/scripts"
)

// lines is a log that comes back to the node while it is told something.
type lines struct {
	node *node.Node

	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	l.node.Identify(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

// logged counts the lines that have all of the words.
func (l *lines) logged(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// However many connections a node has, and calls find it so, it is said once that it is down, up or in quarantine.
func TestLogOfANode(t *testing.T) {
	onBoth(t, func(t *testing.T, m *masters.Master) {
		log := &lines{}
		n, err := node.Open(m.URL(), node.WithTimeout(timeout), node.WithMaxLease(short), node.WithConns(4),
			node.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		must(t, err)
		defer n.Close()
		log.node = n
		name := "node=" + n.Name()
		onAllConns := func(holds func(node.Result) bool) func() bool {
			return func() bool {
				for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
					if !holds(await(t, start(n, key, acquireFor(short, "k:"+key, "o:1"), nil))) {
						return false
					}
				}
				return true
			}
		}
		isQuarantined := func(r node.Result) bool { return outcome(r).Outcome == scripts.Quarantined }

		eventually(t, "quarantined", onAllConns(isQuarantined))
		eventually(t, "quarantine logged", func() bool { return log.logged("level=WARN", "quarantine", name, "left=") == 1 })
		eventually(t, "granted", onAllConns(isGranted))

		must(t, m.Kill())
		eventually(t, "down", onAllConns(func(r node.Result) bool { return r.Err != nil }))
		eventually(t, "down logged", func() bool { return log.logged("level=WARN", "node down", name, "error=") == 1 })
		must(t, m.Start())
		eventually(t, "quarantined again", onAllConns(isQuarantined))
		eventually(t, "up logged", func() bool { return log.logged("level=INFO", "answers again", name) == 1 })
		eventually(t, "quarantine logged again", func() bool { return log.logged("quarantine", name) == 2 })
		eventually(t, "granted again", onAllConns(isGranted))
		if got := log.logged(); got != 4 {
			t.Errorf("%d lines: %q", got, log.all)
		}
	})
}
