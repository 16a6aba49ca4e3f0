//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// forwarded are the signals that the command gets when run does.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// caught are the signals that run catches. No signal is ignored before the command starts, because
// the command would inherit that.
type caught struct {
	forward   chan os.Signal
	continued chan os.Signal // SIGCONT
	broken    chan os.Signal // SIGPIPE, never read: a write to a closed stderr must not end run
}

func catchSignals() *caught {
	c := &caught{make(chan os.Signal, 64), make(chan os.Signal, 1), make(chan os.Signal, 1)}
	for _, s := range forwarded {
		if !signal.Ignored(s) { // by nohup, for example: then the command ignores it, too
			signal.Notify(c.forward, s)
		}
	}
	signal.Notify(c.continued, syscall.SIGCONT)
	signal.Notify(c.broken, syscall.SIGPIPE)
	return c
}

func (c *caught) stop() {
	for _, of := range []chan os.Signal{c.forward, c.continued, c.broken} {
		signal.Stop(of)
	}
}
