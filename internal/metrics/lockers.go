package metrics

import (
	"maps"
	"sync"

	"github.com/quorumlock/quorumlock/quorum"
)

// Lockers are the Lockers whose Stats are observed, each by a name of the user's. The zero value
// has none. It is safe for concurrent use.
type Lockers struct {
	mu  sync.Mutex
	all map[string]*quorum.Locker
}

// Add adds a Locker, in place of one of the same name. It returns how to remove it.
func (l *Lockers) Add(name string, locker *quorum.Locker) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*quorum.Locker{}
	}
	l.all[name] = locker
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.all[name] == locker {
			delete(l.all, name)
		}
	}
}

// Observe calls observe with each metric from the Stats of all Lockers.
func (l *Lockers) Observe(observe func(m *Metric, value float64, labels ...string)) {
	l.mu.Lock()
	all := maps.Clone(l.all)
	l.mu.Unlock()
	for name, locker := range all {
		Observe(name, locker.Stats(), observe)
	}
}
