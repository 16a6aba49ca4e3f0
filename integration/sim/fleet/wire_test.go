package fleet

import (
	"sync"
	"time"
)

// wire leads from a region to a master, or back. What is sent arrives after the delay, in order.
// While the wire is cut, what is under way is held up, as TCP holds it up.
type wire struct {
	delay   time.Duration
	arrives func(parcel)

	mu      sync.Mutex
	changed sync.Cond
	sent    []parcel
	cut     bool
	over    bool
}

// parcel is something under way on one connection.
type parcel struct {
	conn *conn
	kind kind
	data []byte
	at   time.Time // when it arrives
}

type kind int

const (
	payload kind = iota
	opening
	closing
)

func newWire(delay time.Duration, arrives func(parcel)) *wire {
	w := &wire{delay: delay, arrives: arrives}
	w.changed.L = &w.mu
	return w
}

func (w *wire) send(p parcel) {
	p.at = time.Now().Add(w.delay)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, p)
	w.changed.Signal()
}

func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	w.changed.Signal()
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.changed.Signal()
}

// run delivers until the wire ends.
func (w *wire) run() {
	var batch []parcel
	for {
		var ok bool
		if batch, ok = w.take(batch[:0]); !ok {
			return
		}
		for _, p := range batch {
			time.Sleep(time.Until(p.at))
			w.arrives(p)
		}
		clear(batch)
	}
}

// take waits for parcels that no cut holds up. It takes one instant's parcels, so that a cut holds up
// the rest.
func (w *wire) take(room []parcel) (batch []parcel, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.over && (w.cut || len(w.sent) == 0) {
		w.changed.Wait()
	}
	if w.over {
		return nil, false
	}
	n := 1
	for n < len(w.sent) && w.sent[n].at.Equal(w.sent[0].at) {
		n++
	}
	batch = append(room, w.sent[:n]...)
	clear(w.sent[:n])
	if w.sent = w.sent[n:]; len(w.sent) == 0 {
		w.sent = nil
	}
	return batch, true
}
