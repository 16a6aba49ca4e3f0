package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/scripts"
)

func TestMain(m *testing.M) {
	OneProcessor()
	goleak.VerifyTestMain(m)
}

// inWorld runs a test in a bubble, with a world of three masters and a process.
func inWorld(t *testing.T, sky *Weather, test func(t *testing.T, w *World, p *Process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := Config{Masters: 3, Seed: 1, Weather: sky}.New(t)
		test(t, w, w.NewProcess())
	})
}

// dial connects, within a second.
func (p *Process) dial(t *testing.T, master int) net.Conn {
	t.Helper()
	ctx := testkit.Within(t, time.Second)
	return testkit.Opened(p.Dial(ctx, master))(t)
}

// ping sends PING over the connection, and returns how long the reply took, at most a second.
func ping(c net.Conn) (took time.Duration, err error) {
	began := time.Now()
	if err = c.SetReadDeadline(began.Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err = c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err == nil {
		_, err = io.ReadFull(c, make([]byte, len("+PONG\r\n")))
	}
	return time.Since(began), err
}

func TestAQuietWorldTakesNoTime(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, p *Process) {
		began := time.Now()
		c := p.dial(t, 1)
		for range 3 {
			testkit.Got(ping(c))(t)
		}
		testkit.Equal(t, time.Since(began), 0, "the time that passed")
		w.HangUp(1)
		testkit.Is(t, testkit.ErrorOf(ping(c)), io.EOF, "after the master hung up")
		testkit.Must(t, c.Close())
		testkit.Is(t, testkit.ErrorOf(ping(c)), net.ErrClosed, "after Close")

		p.Far(2, time.Millisecond)
		took, err := ping(p.dial(t, 2))
		testkit.Check(t, err == nil && took == 2*time.Millisecond, "far away: after %v, %v", took, err)
	})
}

// What becomes of data depends on the seed, not on the order of goroutines. Data comes in order, and some is lost with its
// connection.
func TestWeatherIsTheSeeds(t *testing.T) {
	const conns = 30
	sky := &Weather{Latency: time.Millisecond, Slow: 0.2, Slowest: 100 * time.Millisecond, Loss: 0.02}
	play := func() (log []string, lost, slow int) {
		inWorld(t, sky, func(t *testing.T, w *World, p *Process) {
			results := make(chan string)
			for i := range conns {
				go func() {
					c, err := p.Dial(t.Context(), i%3)
					for n := 0; err == nil && n < 20; n++ {
						var took time.Duration
						if took, err = ping(c); took > 20*time.Millisecond {
							results <- "slow"
						}
					}
					results <- fmt.Sprint(time.Since(w.Start()), " ", i%3, " ", err)
				}()
			}
			for ended := 0; ended < conns; {
				r := <-results
				if r == "slow" {
					slow++
					continue
				}
				ended++
				if log = append(log, r); !slices.Contains([]string{"<nil>"}, r[len(r)-5:]) {
					lost++
				}
			}
		})
		slices.Sort(log)
		return log, lost, slow
	}
	first, lost, slow := play()
	again, _, _ := play()
	testkit.Check(t, slices.Equal(first, again), "one seed, two runs:\n%q\n%q", first, again)
	testkit.Check(t, lost > 3 && lost < conns && slow > 50, "%d of %d connections died, %d round trips were slow", lost, conns, slow)
}

// No two connections, and no two timers of flows, share an instant.
func TestSlotsAreOfTheirOwn(t *testing.T) {
	seen := map[Slot]string{}
	claim := func(s Slot, format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		testkit.Check(t, seen[s] == "" && s >= TestSlots && s < turn, "slot %d is of %s, and of %s", s, seen[s], what)
		seen[s] = what
	}
	for process := range 8 {
		for master := range 8 {
			for number := range 63 {
				claim(waySlot(process, master, number, true), "up %d %d %d", process, master, number)
				claim(waySlot(process, master, number, false), "down %d %d %d", process, master, number)
			}
		}
		for flow := range 8 {
			for number := range timersEach {
				claim(timerSlot(process, flow, number), "timer %d %d %d", process, flow, number)
			}
		}
	}
	testkit.Check(t, seen[FaultSlot] == "" && seen[TestSlots] == "", "the slots of faults and tests are taken")
}

// What was sent arrives although its connection was closed, or its process killed.
func TestDataArrivesLate(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, p *Process) {
		c := p.dial(t, 0)
		end := w.inject(t, "stall 0")
		testkit.Got(c.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n")))(t)
		testkit.Must(t, c.Close())
		testkit.Pass(time.Hour)
		testkit.Equal(t, len(w.Masters[0].Keys()), 0, "keys before it arrives")
		end()
		synctest.Wait()
		testkit.Check(t, slices.Equal(w.Masters[0].Keys(), []string{"a"}), "keys when it has arrived: %q", w.Masters[0].Keys())

		c = p.dial(t, 0)
		p.Kill()
		testkit.Is(t, testkit.ErrorOf(ping(c)), syscall.ECONNRESET, "a connection of a process that was killed")
		testkit.Is(t, testkit.ErrorOf(p.Dial(t.Context(), 0)), syscall.ECONNREFUSED, "its next one")
		next := p.Next()
		_, err := ping(next.dial(t, 0))
		testkit.Check(t, err == nil && next.Number == p.Number && w.Process(0) == next, "the next process: %v", err)
	})
}

// A dial waits while the two are cut off, and ends with its context.
func TestDialEndsWithItsContext(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, p *Process) {
		defer w.inject(t, "cut-down 0 2")()
		ctx := testkit.Within(t, time.Minute)
		_, err := p.Dial(ctx, 2)
		testkit.Check(t, errors.Is(err, context.DeadlineExceeded) && time.Since(w.Start()) == time.Minute, "after %v: %v",
			time.Since(w.Start()), err)
	})
}

// A paused process sees nothing, while its clock goes on. What came in time is found in time, however late it goes on.
func TestPause(t *testing.T) {
	inWorld(t, &Weather{Latency: time.Millisecond}, func(t *testing.T, w *World, p *Process) {
		c := p.dial(t, 0)
		fired := time.Time{}
		before := p.Clock.Now()
		p.Clock.AfterFunc(time.Second, func() { fired = time.Now() })
		began := time.Now()
		testkit.Got(c.Write([]byte("*1\r\n$4\r\nPING\r\n")))(t)
		testkit.Must(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		w.inject(t, "pause 0 10s")
		_, err := io.ReadFull(c, make([]byte, len("+PONG\r\n")))
		took := time.Since(began)
		testkit.Check(t, err == nil && took >= 10*time.Second && took < 10*time.Second+turn*2, "read after %v: %v", took, err)
		testkit.Pass(turn * 2)
		late := fired.Sub(began)
		testkit.Check(t, late >= 10*time.Second && late < 10*time.Second+turn*2, "the timer fired after %v", late)
		testkit.Check(t, p.Clock.Now().Sub(before) > 10*time.Second, "the clock stood still")

		defer w.inject(t, "pause 0")()
		passed := false
		go func() { p.Pass(); passed = true }()
		testkit.Pass(time.Hour)
		testkit.Check(t, !passed, "it goes on by itself")
	})
}

// Time leaps for masters and processes alike. A clock has the rate that it was given.
func TestLeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Config{Masters: 2, Rates: []float64{1, 2}}.New(t)
		usual, fast := w.NewProcess(), w.NewProcessAt("fast", 3)
		millis := func(master int) int64 {
			reply := testkit.Got(redis.Int64s(redis.NewConn(usual.dial(t, master), 0, 0).Do("TIME")))(t)
			return reply[0]*1000 + reply[1]/1000
		}
		first, second := millis(0), millis(1)
		time.Sleep(time.Second)
		w.Leap(time.Minute)
		testkit.Equal(t, millis(0)-first, 61_000, "milliseconds of master 0")
		testkit.Equal(t, millis(1)-second, 62_000, "milliseconds of master 1")
		testkit.Equal(t, time.Duration(usual.Clock.Now()), 61*time.Second, "a process")
		testkit.Equal(t, time.Duration(fast.Clock.Now()), 63*time.Second, "a fast one")
	})
}

// Masters tell what they run, and wait for the test before they answer.
func TestHooks(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, p *Process) {
		var heard []Script
		w.Before(func(s Script) { heard = append(heard, s) })
		n := p.Nodes()[1]
		look := func() error { return inside.Of(n).Pipe("").Do(t.Context(), scripts.Look()).Err }
		testkit.Must(t, look())
		testkit.Check(t, len(heard) > 0 && heard[0].Master == 1 && heard[0].Name == "look" &&
			heard[0].Client == "process0:1", "heard %+v", heard)
		testkit.Check(t, w.Ran("look") == len(heard) && w.Ran() == len(heard) && w.Ran("acquire") == 0, "it ran %d", w.Ran())
		w.Before(nil)
		testkit.Must(t, look())
		testkit.Check(t, w.Ran() > len(heard), "it heard %d of %d", len(heard), w.Ran())
	})
}

// A deadline that is over ends a read at once.
func TestDeadline(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, p *Process) {
		c := p.dial(t, 0)
		defer time.AfterFunc(time.Minute, func() { testkit.Check(t, c.SetDeadline(time.Unix(1, 0)) == nil, "SetDeadline") }).Stop()
		_, err := c.Read(make([]byte, 1))
		testkit.Check(t, errors.Is(err, os.ErrDeadlineExceeded) && time.Since(w.Start()) == time.Minute, "%v", err)
	})
}

// A dial that fails is not kept: processes may dial for days.
func TestADialThatFailsIsForgotten(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, p *Process) {
		fault := testkit.Got(w.Fault("crash 0"))(t)
		defer w.Inject(fault)()
		for range 3 {
			_, err := p.Dial(t.Context(), 0)
			testkit.Check(t, err != nil, "it connected")
		}
		testkit.Equal(t, len(w.conns), 0, "connections that the world keeps")
	})
}
