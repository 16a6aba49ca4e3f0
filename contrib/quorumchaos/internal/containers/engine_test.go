package containers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *Engine {
	t.Helper()
	e, err := Open()
	if errors.Is(err, ErrNoEngine) {
		t.Skipf("SKIPPED, needs a container engine: %v", err)
	}
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, e.Close()) })
	return e
}

// The reaper removes everything when the process that made it ends without Close.
func TestReaper(t *testing.T) {
	e := open(t)
	for range 2 {
		testkit.Got(e.Start())(t)
	}
	left, err := e.left()
	testkit.Require(t, err == nil && len(left) >= 3, "two containers and a network: %q, %v", left, err)
	testkit.Must(t, e.reaper.Close("")) // as the end of this process does, in place of a crash
	left, err = e.left()
	testkit.Check(t, err == nil && len(left) == 0, "left behind: %q, %v", left, err)
}

// An engine that fails to pause is asked again; one that refuses is not.
func TestFreezeAgain(t *testing.T) {
	for _, c := range []struct {
		answers []int
		fails   bool
	}{{[]int{500, 500, 204}, false}, {[]int{409}, true}, {[]int{404}, true}} {
		asked := 0
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.answers[min(asked, len(c.answers)-1)])
			asked++
		}))
		client := testkit.Got(dc.NewClient(engine.URL))(t)
		m := &Master{engine: &Engine{pool: &dockertest.Pool{Client: client}}, id: "one"}
		err := m.Freeze()
		testkit.Check(t, (err != nil) == c.fails && asked == len(c.answers), "answers %d: asked %d times, %v", c.answers, asked, err)
		client.HTTPClient.CloseIdleConnections()
		engine.Close()
	}
}
