package metrics

import (
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/quorum"
)

// Lockers are the Lockers whose Stats are observed, each by a name of the user's. The zero value
// has none. It is safe for concurrent use.
type Lockers struct {
	mu  sync.Mutex
	all []named
}

type named struct {
	name   string
	locker *quorum.Locker
}

// Add adds a Locker, in place of one of the same name. It returns how to remove it.
func (l *Lockers) Add(name string, locker *quorum.Locker) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	added := named{name, locker}
	l.all = slices.DeleteFunc(l.all, func(n named) bool { return n.name == name })
	l.all = append(l.all, added)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = slices.DeleteFunc(l.all, func(n named) bool { return n == added })
	}
}

// Observe calls observe with each metric from the Stats of all Lockers.
func (l *Lockers) Observe(observe func(m *Metric, value float64, labels ...string)) {
	l.mu.Lock()
	all := slices.Clone(l.all)
	l.mu.Unlock()
	for _, n := range all {
		Observe(n.name, n.locker.Stats(), observe)
	}
}
