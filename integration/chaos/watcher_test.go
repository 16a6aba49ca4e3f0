//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/integration/contender"
	"github.com/quorumlock/quorumlock/integration/pictures"
	"github.com/quorumlock/quorumlock/internal/timeline"
	"github.com/quorumlock/quorumlock/scripts"
)

// watchEvery is how often a watcher asks a master.
const watchEvery = 40 * time.Millisecond

// watcher asks each master, by a connection of its own, for its marker: whether it is in quarantine, and
// which list it has. It writes nothing. While a master does not answer, what it said last stands: the
// tracks cover that. A change is noted when it is seen, or at the fault since the last look
// that may have caused it.
type watcher struct {
	*cluster
	stop  chan struct{}
	asks  sync.WaitGroup
	mu    sync.Mutex
	spans [][]pictures.Span // of each master
}

// watch starts a watcher.
func (c *cluster) watch() *watcher {
	w := &watcher{cluster: c, stop: make(chan struct{}), spans: make([][]pictures.Span, len(c.servers))}
	for i := range c.servers {
		w.asks.Go(func() { w.ask(i) })
	}
	return w
}

// end stops it. A nil watcher has ended.
func (w *watcher) end() {
	if w == nil {
		return
	}
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.asks.Wait()
}

func (w *watcher) ask(i int) {
	var l line
	defer l.close()
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for last := contender.Now(); ; {
		w.cluster.mu.Lock()
		url := w.servers[i].URL()
		w.cluster.mu.Unlock()
		if said, err := l.ask(url); err == nil {
			now := contender.Now()
			w.note(i, said, last, now)
			last = now
		}
		select {
		case <-w.stop:
			return
		case <-every.C:
		}
	}
}

// note notes what a master says now, if it is something else than at the last look.
func (w *watcher) note(i int, said pictures.Span, last, now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	spans := w.spans[i]
	if n := len(spans); n > 0 {
		before := &spans[n-1]
		if before.State == said.State && before.Text == said.Text {
			return
		}
		now = w.tracks.firstMark(ofMaster(i), last, now)
		before.To = now
	}
	said.From, said.To = now, pictures.Open
	w.spans[i] = append(spans, said)
}

// of returns what a master said. A nil watcher knows that it was up, and no more.
func (w *watcher) of(i int, from int64) []pictures.Span {
	up := pictures.Span{From: from, To: pictures.Open, State: timeline.Up, Text: "up"}
	if w == nil {
		return []pictures.Span{up}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spans[i]) > 0 {
		w.spans[i][0].From = from
		return w.spans[i]
	}
	return []pictures.Span{up}
}

// line is a connection to a master.
type line struct {
	url  string
	conn redis.Conn
	run  string // the master's run id
}

func (l *line) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// ask asks the master behind the URL. After a broken connection it asks once more.
func (l *line) ask(url string) (said pictures.Span, err error) {
	for range 2 {
		fresh := l.conn == nil || l.url != url
		if fresh {
			if err = l.open(url); err != nil {
				return said, err
			}
		}
		if said, err = l.look(); err == nil || fresh {
			break
		}
		l.close()
	}
	if err != nil {
		l.close()
	}
	return said, err
}

func (l *line) open(url string) (err error) {
	l.close()
	l.url = url
	if l.conn, err = redis.DialURL(url, redis.DialConnectTimeout(nodeTimeout), redis.DialReadTimeout(nodeTimeout),
		redis.DialWriteTimeout(nodeTimeout)); err != nil {
		l.conn = nil
		return err
	}
	info, err := redis.String(l.conn.Do("INFO", "server"))
	l.run = runIn(info)
	return err
}

// look returns what the master says of itself.
func (l *line) look() (said pictures.Span, err error) {
	text, err := redis.String(l.conn.Do("GET", scripts.MarkerKey))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return said, err
	}
	told, err := redis.Int64s(l.conn.Do("TIME"))
	if err != nil {
		return said, err
	}
	return stateOf(text, l.run, time.Duration(told[0])*time.Second+time.Duration(told[1])*time.Microsecond), nil
}

// stateOf returns the state of a master with a marker, or none, at an instant of its clock. It is in
// quarantine until a client has marked it, and then for one max lease.
func stateOf(marker, run string, now time.Duration) pictures.Span {
	m, err := scripts.ParseMarker(marker)
	if err != nil || m.Run != run {
		return pictures.Span{State: timeline.Quarantine, Text: "unmarked: grants nothing",
			Detail: "no marker of this process"}
	}
	s := pictures.Span{State: timeline.Up, Text: "up", Detail: strings.ReplaceAll(marker, "\n", "; ")}
	if m.Members.Len() > 0 {
		s.Text += fmt.Sprintf(", list %d", m.Generation)
	}
	if m.Next.Len() > 0 {
		s.Text += fmt.Sprintf(" → %d", m.Generation+1)
	}
	if m.Claimed || m.Quarantine(now) > 0 {
		s.State, s.Text = timeline.Quarantine, strings.Replace(s.Text, "up", "quarantine", 1)
	}
	return s
}

// runIn returns the run id in the answer to INFO.
func runIn(info string) string {
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id
}
