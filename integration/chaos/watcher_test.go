//go:build unix

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/node"
	operators "github.com/quorumlock/quorumlock/node/operator"
)

// watchEvery is how often a master is asked.
const watchEvery = 100 * time.Millisecond

// watch asks each master, by connections of its own, whether it is in quarantine, and which list it has, until
// the returned function is called. It writes nothing. While a master does not answer, what it said last stands:
// the faults cover that.
func (r *run) watch() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	for i := range r.servers {
		r.watching.Go(func() {
			every := time.NewTicker(watchEvery)
			defer every.Stop()
			said := timeline.Span{State: timeline.Up, Text: "up"}
			r.tracks.Add(ofMaster(i), said)
			for last := now(); ctx.Err() == nil; {
				if next, err := r.ask(ctx, i); err == nil && next != said {
					r.tracks.End(ofMaster(i), said.Text)
					said = next
					// An empty master must not look up until it is asked: the last fault may have caused the change.
					next.From = last
					if marks := r.tracks.Rows(ofMaster(i))[0].Marks; len(marks) > 0 {
						next.From = max(last, marks[len(marks)-1].At)
					}
					r.tracks.Add(ofMaster(i), next)
				}
				last = now()
				select {
				case <-ctx.Done():
				case <-every.C:
				}
			}
		})
	}
	return func() {
		cancel()
		r.watching.Wait()
	}
}

// ask returns what a master says of itself.
func (r *run) ask(ctx context.Context, i int) (timeline.Span, error) {
	r.cluster.mu.Lock()
	url := r.urls(i)[0]
	r.cluster.mu.Unlock()
	n, err := node.Open(url, node.WithMaxLease(r.lease), node.WithTimeout(nodeTimeout))
	if err != nil {
		return timeline.Span{}, err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	told, err := operators.Check(ctx, n)
	return stateOf(told), err
}

// stateOf returns the state of a master that reports this. Its first list needs no number.
func stateOf(told operators.Report) timeline.Span {
	s := timeline.Span{State: timeline.Up, Text: "up"}
	if told.Quarantine > 0 {
		s = timeline.Span{State: timeline.Quarantine, Text: "quarantine"}
	}
	if told.Generation > 1 {
		s.Text += fmt.Sprintf(", list %d", told.Generation)
	}
	if len(told.Next) > 0 {
		s.Text += fmt.Sprintf(" → %d", told.Generation+1)
	}
	return s
}
