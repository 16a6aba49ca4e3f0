package fleet

import (
	"slices"
	"sync"
	"time"
)

// class is what is measured together: the calls of Lock of one region, or at names with so many
// contenders.
type class struct {
	at         region
	contenders int // 1: nobody else wants the name
}

// samples has how long each call of Lock took, while it is on.
type samples struct {
	mu   sync.Mutex
	on   bool
	took map[class][]time.Duration
}

func (s *samples) add(of class, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		s.took[of] = append(s.took[of], took)
	}
}

// start begins a measurement, without what was before.
func (s *samples) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.took = true, map[class][]time.Duration{}
}

// stop ends the measurement, and returns it.
func (s *samples) stop() map[class][]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = false
	return s.took
}

// quantile returns a quantile of a sample: 0.5 is the median. It is 0 for no sample.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)]
}
