package world

import (
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// inject begins the fault of a line.
func (w *World) inject(t *testing.T, line string) (end func()) {
	t.Helper()
	f := testkit.Got(w.Fault(line))(t)
	return w.Inject(f)
}

// effects say of each kind how many of these work while a fault lasts, or after it: old connections and new ones, of processes
// 0 and 1 to masters 0 and 1, the fault being of process 0 and master 0.
var effects = map[string]struct {
	old, new [4]bool // 0 to 0, 0 to 1, 1 to 0, 1 to 1
	keys     int     // that master 0 has then, of 1 that was saved and 2 in all
}{
	"crash":       {[4]bool{false, true, false, true}, [4]bool{false, true, false, true}, 0},
	"crash-saved": {[4]bool{false, true, false, true}, [4]bool{false, true, false, true}, 1},
	"crash-kept":  {[4]bool{false, true, false, true}, [4]bool{false, true, false, true}, 2},
	"save":        {all, all, 2},
	"flush":       {all, all, 0},
	"unload":      {all, all, 2},
	"stall":       {[4]bool{false, true, false, true}, [4]bool{false, true, false, true}, 2},
	"part":        {[4]bool{false, true, false, true}, [4]bool{false, true, false, true}, 2},
	"unplug":      {[4]bool{false, true, false, true}, [4]bool{false, true, false, true}, 2},
	"cut":         {[4]bool{false, true, true, true}, [4]bool{false, true, true, true}, 2},
	"cut-up":      {[4]bool{false, true, true, true}, [4]bool{false, true, true, true}, 2},
	"cut-down":    {[4]bool{false, true, true, true}, [4]bool{false, true, true, true}, 2},
	"reset":       {[4]bool{false, true, true, true}, all, 2},
	"isolate":     {[4]bool{false, false, true, true}, [4]bool{false, false, true, true}, 2},
	"pause":       {[4]bool{false, false, true, true}, [4]bool{false, false, true, true}, 2},
	"kill":        {[4]bool{false, false, true, true}, all, 2},
	"restart":     {all, all, 2},
}

var all = [4]bool{true, true, true, true}

// Each kind of fault does what it says, to those that it is of, until it ends: then all is well again.
func TestEachKind(t *testing.T) {
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			want, known := effects[k.Name]
			testkit.Require(t, known, "effects does not say what it does")
			for _, sky := range []*Weather{nil, {Latency: time.Millisecond}} {
				inWorld(t, sky, func(t *testing.T, w *World, p *Process) { playKind(t, w, k, want.old, want.new, want.keys) })
			}
		})
	}
}

func playKind(t *testing.T, w *World, k *Kind, wantOld, wantNew [4]bool, wantKeys int) {
	w.NewProcess()
	replaced := ""
	w.Replace = func(process int, kill bool) {
		if replaced = "ended"; kill {
			replaced = "killed"
			w.Process(process).Kill()
		}
		w.Process(process).Next()
	}
	w.Masters[0].Set("a", "1")
	w.Masters[0].Save()
	w.Masters[0].Set("b", "1")
	dial := func() (conns [4]func() bool) {
		for i := range conns {
			made := make(chan net.Conn, 1)
			go func() {
				ctx := testkit.Within(t, time.Second)
				c, _ := w.Process(i/2).Dial(ctx, i%2)
				made <- c
			}()
			conns[i] = func() bool { c := <-made; return c != nil && works(c) }
		}
		return conns
	}
	look := func(when string, conns [4]func() bool, want [4]bool) {
		t.Helper()
		var got [4]bool
		results := make([]chan bool, 4)
		for i, c := range conns {
			results[i] = make(chan bool, 1)
			go func() { results[i] <- c() }()
		}
		testkit.Pass(5 * time.Second)
		for i, r := range results {
			select {
			case got[i] = <-r:
			default: // the process stands still
			}
		}
		testkit.Equal(t, got, want, when)
	}
	old := dial()
	testkit.Pass(time.Second)
	f := Fault{Kind: k}
	end := w.Inject(f)
	testkit.Pass(time.Second)
	look("connections from before", old, wantOld)
	look("new connections", dial(), wantNew)
	testkit.Equal(t, !w.Masters[0].Up(), k.Restarts, "whether a master restarts")
	end()
	testkit.Pass(time.Second)
	testkit.Equal(t, len(w.Masters[0].Keys()), wantKeys, "keys")
	look("connections after it", dial(), all)
	testkit.Equal(t, replaced != "", k.Replaces, "whether the process was replaced")
	testkit.Equal(t, wantKeys < 2, k.Forgets, "whether a master forgets")
	began, lasting := time.Now(), Fault{Kind: k, Lasts: time.Minute}
	if k.Takes&Lasts != 0 {
		w.Inject(lasting)
		testkit.Pass(30 * time.Second)
		look("halfway", dial(), wantNew)
		testkit.Pass(time.Until(began.Add(time.Minute + time.Second)))
		look("when its time is over", dial(), all)
		w.Inject(f)
		w.Heal()
		look("when all is healed", dial(), all)
	}
}

func works(c net.Conn) bool {
	defer c.Close()
	_, err := ping(c)
	return err == nil
}

// A line names a fault, and says what is wrong with it.
func TestLines(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, _ *Process) {
		w.NewProcessAt("A", 0)
		for _, k := range Kinds {
			f := Fault{Kind: k}
			if k.Takes&OfProcess != 0 {
				f.Process = 1
			}
			if k.Takes&OfMaster != 0 {
				f.Master = 2
			}
			if k.Takes&Lasts != 0 {
				f.Lasts = 10 * time.Second
			}
			read, err := w.Fault(f.String())
			testkit.Check(t, err == nil && read == f, "%q is read as %+v, %v", f, read, err)
		}
		f, err := w.Fault("cut A master1")
		testkit.Check(t, err == nil && f == Fault{Kind: KindOf("cut"), Process: 1, Master: 1}, "%+v, %v", f, err)
		for line, says := range map[string]string{"": "no fault is named", "storm 1": "no such fault", "cut A": "which master?", "cut": "which process?",
			"cut B 1": `there is no process "B"`, "stall 3": `there is no master "3"`, "stall 2 long": "invalid duration", "flush 1 2s": `flush takes no "2s"`} {
			_, err := w.Fault(line)
			testkit.Check(t, err != nil && strings.Contains(err.Error(), says), "%q: %v", line, err)
		}
	})
}

// Each kind is drawn as often as its weight says. Some faults hit all masters.
func TestRoll(t *testing.T) {
	const rolls = 20_000
	r, drawn, sum, everywhere := rand.New(rand.NewPCG(1, 2)), map[*Kind]int{}, 0.0, 0
	dice := Dice{Masters: 3, Processes: 2, Lasts: func(*rand.Rand) time.Duration { return time.Second },
		Allow: func(k *Kind) bool { return !k.Replaces }}
	for range rolls {
		faults := dice.Roll(r)
		drawn[faults[0].Kind]++
		if len(faults) == 3 {
			everywhere++
		}
	}
	for _, k := range Kinds {
		if !k.Replaces {
			sum += k.Weight
		}
	}
	for _, k := range Kinds {
		want := 0.0
		if !k.Replaces {
			want = rolls * k.Weight / sum
		}
		testkit.Check(t, math.Abs(float64(drawn[k])-want) <= want/4, "%s is drawn %d times, want %v", k.Name, drawn[k], want)
	}
	testkit.Check(t, everywhere > rolls/20 && everywhere < rolls/8, "%d of %d faults hit all masters", everywhere, rolls)
}

// A plan is played at its times, and ends all that it began.
func TestPlay(t *testing.T) {
	inWorld(t, &Weather{Latency: time.Millisecond}, func(t *testing.T, w *World, p *Process) {
		at := func(line string, at time.Duration) Fault {
			f := testkit.Got(w.Fault(line))(t)
			f.At = at
			return f
		}
		plan := []Fault{at("stall 1 1h", 3*time.Second), at("crash-kept 0 1s", time.Second), at("save 2", 2*time.Second), at("flush 0", time.Hour)}
		var begun []string
		w.Play(plan, 10*time.Second, func(f Fault) {
			begun = append(begun, f.String()+" at "+time.Since(w.Start()).Truncate(time.Second).String())
		})
		want := []string{"crash-kept 0 1s at 1s", "save 2 at 2s", "stall 1 1h0m0s at 3s"}
		testkit.Check(t, slices.Equal(begun, want) && time.Since(w.Start()) < 11*time.Second, "%q, over after %v", begun, time.Since(w.Start()))
		for m := range w.Masters {
			testkit.Check(t, works(p.dial(t, m)), "master %d does not answer", m)
		}
	})
}
