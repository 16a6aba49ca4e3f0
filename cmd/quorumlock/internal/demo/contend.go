package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/quorum"
	"golang.org/x/sync/errgroup"
)

const (
	turnsEach = 3
	workTime  = 120 * time.Millisecond
	// restTime is above the longest pause between two attempts of the other worker, so that the workers alternate.
	restTime = 250 * time.Millisecond
)

type logbook struct {
	mu        sync.Mutex
	inside    int
	overlaps  int
	handovers int
	last      *worker
	tokens    []uint64
}

// enter records a holder. It returns by how much its token is above the previous one.
func (b *logbook) enter(w *worker, token uint64) (rise int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside++; b.inside > 1 {
		b.overlaps++
	}
	if len(b.tokens) > 0 {
		rise = int64(token - b.tokens[len(b.tokens)-1])
		if b.last != w {
			b.handovers++
		}
	}
	b.last, b.tokens = w, append(b.tokens, token)
	return rise
}

func (b *logbook) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
}

func (d *demo) contend(ctx context.Context) error {
	d.chapter("2. Two workers, one name")
	d.say("worker A and worker B both want %s, %d times each; each grant carries a fencing token:", resource, turnsEach)
	d.say("a resource should refuse a token lower than one it has seen, so that a late writer does no harm")
	book := &logbook{}
	group, within := errgroup.WithContext(ctx)
	for _, w := range []*worker{d.a, d.b} {
		group.Go(func() (err error) {
			defer guard(&err)
			for range turnsEach {
				if err := d.turn(within, w, book); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	d.claim(book.overlaps == 0 && book.handovers > 0, "%d turns, %d handovers, never two workers in at once",
		len(book.tokens), book.handovers)
	d.claim(slices.IsSorted(book.tokens) && len(slices.Compact(book.tokens)) == 2*turnsEach, "every token is higher than the one before")
	return nil
}

func (d *demo) take(ctx context.Context, w *worker) (*quorum.Lock, error) {
	d.chart.Add(w.name, timeline.Span{State: timeline.Waits})
	lock, err := w.locker.Lock(ctx, resource)
	d.chart.End(w.name, "")
	if err == nil {
		d.chart.Add(w.name, timeline.Span{State: timeline.Holds, Token: lock.Token()})
	}
	return lock, err
}

func (d *demo) turn(ctx context.Context, w *worker, book *logbook) error {
	lock, err := d.take(ctx, w)
	if err != nil {
		return err
	}
	if rise := book.enter(w, lock.Token()); rise == 0 {
		d.say("%s holds it, token %d", w.name, lock.Token())
	} else {
		d.say("%s holds it, token %d (%+d)", w.name, lock.Token(), rise)
	}
	worked := pause(lock.Context(), workTime)
	book.leave()
	d.chart.End(w.name, "")
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	if worked != nil {
		return worked
	}
	return pause(ctx, restTime)
}
