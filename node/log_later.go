package node

import "sync"

// LogQuarantineLater has the log say nothing of the node's quarantine until the returned function is
// called: once, with true if another line has said it for all nodes. It is for package quorum.
func (n *Node) LogQuarantineLater() (release func(said bool)) {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later++
	var once sync.Once
	return func(said bool) {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.later--
			if said {
				l.logged.quarantine = l.current.quarantine
			}
			l.startLocked()
		})
	}
}
