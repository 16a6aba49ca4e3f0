package node

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/inside"
	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/testkit"
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
		testkit.Equal(t, l.state(), inside.Quarantined, "the state before its end")
		time.Sleep(time.Nanosecond)
		testkit.Equal(t, l.state(), inside.Up, "the state at its end")
	})
}
