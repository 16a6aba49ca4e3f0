package node

import "sync"

// QuarantineLater is for package quorum: see [inside.Log].
func (l *stateLog) QuarantineLater() (release func(over func())) {
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
