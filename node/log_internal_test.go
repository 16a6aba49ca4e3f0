package node

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// A goroutine that hands on a reply late does not lengthen the quarantine that it reports.
func TestAQuarantineCountsFromItsReply(t *testing.T) {
	const left, late = 10 * time.Second, 4 * time.Second
	synctest.Test(t, func(t *testing.T) {
		l := &stateLog{logger: slog.New(slog.DiscardHandler), name: func() string { return "a" }}
		defer l.close()
		came := time.Now()
		time.Sleep(late)
		l.Quarantined(pipeline.Quarantine{Left: left, Asked: came, Came: came})
		time.Sleep(left - late - time.Nanosecond)
		if got := l.state(); got != inside.Quarantined {
			t.Errorf("before its end the state is %v", got)
		}
		time.Sleep(time.Nanosecond)
		if got := l.state(); got != inside.Up {
			t.Errorf("at its end the state is %v", got)
		}
	})
}
