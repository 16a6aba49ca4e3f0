package node

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// journal logs what becomes of a node, in goroutines of its own: a log may be slow, and may come back to us.
type journal struct {
	node *Node

	mu    sync.Mutex
	down  int   // how many of its connections are
	why   error // the last that went down
	quiet time.Time

	telling sync.Mutex
	told    bool // that the node is down
}

// wentDown and cameUp are called once for each change of a connection, in order.
func (j *journal) wentDown(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.down++; j.down == 1 {
		j.why = err
		j.start(j.tell)
	}
}

func (j *journal) cameUp() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.down--; j.down == 0 {
		j.start(j.tell)
	}
}

// tell says how things stand, unless that was said last.
func (j *journal) tell() {
	j.telling.Lock()
	defer j.telling.Unlock()
	j.mu.Lock()
	down, why := j.down > 0, j.why
	j.mu.Unlock()
	if down == j.told {
		return
	}
	j.told = down
	if down {
		j.node.opts.logger.Warn("quorumlock: node down", "node", j.node.Name(), "error", why)
	} else {
		j.node.opts.logger.Info("quorumlock: node answers again", "node", j.node.Name())
	}
}

// quarantined says so once for each quarantine.
func (j *journal) quarantined(left time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if now.Before(j.quiet) {
		return
	}
	j.quiet = now.Add(left)
	j.start(func() {
		j.node.opts.logger.Warn("quorumlock: node in quarantine, it grants nothing new", "node", j.node.Name(), "left", left)
	})
}

func (j *journal) start(tell func()) {
	if !j.node.isClosed() && j.node.opts.logger.Enabled(context.Background(), slog.LevelWarn) {
		go tell()
	}
}
