package node

import "sync"

// LogQuarantineLater has the log say nothing of the node's quarantine until the returned function is
// called, once. With a function over, the log does not say it then either, because another line has
// said it for all nodes; over is called in place of the line that it has ended. It is for package
// quorum.
func (n *Node) LogQuarantineLater() (release func(over func())) {
	l := n.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later++
	var once sync.Once
	return func(over func()) {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.later--
			if over != nil && !l.current.quarantine.IsZero() {
				l.logged.quarantine, l.over = l.current.quarantine, over
			}
			l.startLocked()
		})
	}
}
