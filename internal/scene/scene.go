package scene

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/world"
	"github.com/quorumlock/quorumlock/leader"
	"github.com/quorumlock/quorumlock/quorum"
)

// Run plays the scenes of the files, each scene in a bubble of its own. At its end, left says what a locker that holds nothing
// has left behind, or ""; it may be nil.
func Run(t *testing.T, files string, left func(*quorum.Locker) string) {
	t.Helper()
	all, err := filepath.Glob(files)
	testkit.Check(t, err == nil && len(all) > 0, "no scenes are at %s (%v)", files, err)
	for _, file := range all {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &stage{left: left}
			defer s.close()
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "masters" || s.commands == nil {
					s.close()
					s.open(t)
				}
				return s.play(t, d)
			})
		})
	}
}

// stage is where a scene is played. The reader of its text is not in the bubble, so that no time passes there between commands.
type stage struct {
	left     func(*quorum.Locker) string
	commands chan []line
	results  chan string
	ended    chan struct{}
}

func (s *stage) open(t *testing.T) {
	s.commands, s.results, s.ended = make(chan []line), make(chan string), make(chan struct{})
	go func() {
		defer close(s.ended)
		synctest.Test(t, func(t *testing.T) {
			p := &play{t: t, left: s.left, lockers: map[string]*quorum.Locker{}, locks: map[string]*quorum.Lock{}, calls: map[string]context.CancelFunc{},
				elections: candidates{map[string]*leader.Candidate{}, map[string]*leader.Term{}}}
			defer p.close()
			for lines := range s.commands {
				s.results <- p.run(lines)
			}
		})
	}()
}

func (s *stage) play(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	s.commands <- linesOf(t, d)
	select {
	case result := <-s.results:
		return result
	case <-s.ended:
		s.commands = nil
		t.Fatalf("%s: the scene has ended", d.Pos)
		return ""
	}
}

func (s *stage) close() {
	if s.commands != nil {
		close(s.commands)
		<-s.ended
		s.commands = nil
	}
}

// play is a scene that is played.
type play struct {
	t       *testing.T
	w       *world.World
	left    func(*quorum.Locker) string
	lockers map[string]*quorum.Locker
	locks   map[string]*quorum.Lock
	calls   map[string]context.CancelFunc // that may wait
	tokens  []uint64                      // as they were seen
	ticket  string                        // of the last hand-over

	elections candidates

	ran   map[string]int
	began time.Time // the world

	mu     sync.Mutex
	events []event
}

// commands are what a line may begin with, apart from faults.
var commands map[string]func(*play, line)

func init() { // its functions use it
	commands = map[string]func(*play, line){
		"masters": (*play).masters, "process": (*play).process, "close": (*play).closes, "pass": (*play).pass,
		"lock": (*play).acquire, "trylock": (*play).acquire, "rlock": (*play).acquire, "tryrlock": (*play).acquire,
		"acquire": (*play).acquire, "tryacquire": (*play).acquire, "wait": (*play).acquire, "takeover": (*play).acquire,
		"cancel": (*play).cancel, "unlock": (*play).use, "extend": (*play).use, "downgrade": (*play).use, "handover": (*play).use,
		"held": (*play).held, "force": (*play).ask, "ready": (*play).ask, "inspect": (*play).ask, "check": (*play).ask, "do": (*play).do,
		"stats": (*play).stats, "marker": (*play).marker, "lists": (*play).lists,
		"campaign": (*play).campaigns, "resign": (*play).elect, "isleader": (*play).elect, "term": (*play).elect,
		"leader": (*play).elect, "observe": (*play).observes, "run": (*play).runs,
		"keys": (*play).keys, "subscribed": (*play).subscribed, "subscribe": (*play).subscribe, "forceowner": (*play).ask, "redis": (*play).redis, "ran": (*play).scripts, "heal": (*play).heal, "slow": (*play).slow,
	}
}

// settle is longer than all masters need for what they were asked.
const settle = 20 * time.Microsecond

func (p *play) run(lines []line) string {
	var result []string
	for _, l := range lines {
		l.t = p.t
		do, ok := commands[l.cmd]
		switch {
		case ok:
			do(p, l)
		case world.KindOf(l.cmd) != nil:
			p.fault(l)
		default:
			p.t.Fatalf("no command is named %s", l.cmd)
		}
		unknown := l.unknown()
		testkit.Check(p.t, len(unknown) == 0, "%s has no options %s", l.cmd, strings.Join(unknown, ", "))
		p.settle()
		result = append(result, p.told()...)
	}
	return strings.Join(result, "\n")
}

func (p *play) settle() {
	time.Sleep(settle)
	synctest.Wait()
}

// event is a line of the result.
type event struct {
	at   time.Time
	by   string // events of one instant are told in the order of who they are by
	text string
}

// say adds a line to the result. Callers may be goroutines.
func (p *play) say(by, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event{time.Now(), by, p.plain(fmt.Sprintf(format, args...))})
}

// told are the lines since the last time, in their order.
func (p *play) told() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortStableFunc(p.events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	for _, e := range p.events {
		lines = append(lines, e.text)
	}
	p.events = nil
	return lines
}

func (p *play) close() {
	for _, end := range p.calls {
		end()
	}
	if p.w != nil {
		p.w.Heal()
	}
	time.Sleep(time.Minute) // until all masters that were away have what is owed to them
	synctest.Wait()
	for name, l := range p.lockers {
		if s := l.Stats(); p.left != nil && s.Held+s.Waiting == 0 {
			left := p.left(l)
			testkit.Check(p.t, left == "", "%s holds nothing, and has left %s", name, left)
		}
		l.Close()
	}
	synctest.Wait()
}

func (p *play) masters(l line) {
	n := l.number(0)
	p.w = world.Config{Masters: n, Rates: slices.Repeat([]float64{l.float("rate", 1)}, n), Seed: 1}.New(p.t)
	p.ran, p.began = map[string]int{}, time.Now()
}

// pass does not count what the commands before it took, unless that is a millisecond or more: so times add up.
func (p *play) pass(l line) {
	d, err := time.ParseDuration(l.words[0])
	testkit.Must(p.t, err)
	now := time.Since(p.began).Truncate(time.Millisecond)
	time.Sleep(time.Until(p.began.Add(now + d)))
}

// fault begins a fault; at "all" masters, one at each.
func (p *play) fault(l line) {
	text := strings.Join(append([]string{l.cmd}, l.words...), " ")
	for master := range p.w.Masters {
		f, err := p.w.Fault(strings.Replace(text, " all", fmt.Sprint(" ", master), 1))
		testkit.Must(p.t, err)
		p.w.Inject(f)
		if !strings.Contains(text, " all") {
			break
		}
	}
}

func (p *play) heal(line) { p.w.Heal() }

// sorted is for what has no order of its own.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
