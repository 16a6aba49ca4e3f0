package measure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Command is how often a command ran on the masters, also inside scripts, and for how long in all.
// The time of a script includes that of its commands.
type Command struct {
	Calls int
	Time  time.Duration
}

// Commands are the masters' commands by name, such as "hset" or "client|info".
type Commands map[string]Command

// add adds the lines of INFO commandstats: cmdstat_get:calls=3,usec=12,...
func (c Commands) add(name, value string) error {
	calls, rest, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
	usec, _, _ := strings.Cut(strings.TrimPrefix(rest, "usec="), ",")
	n, err := strconv.Atoi(calls)
	if err != nil {
		return fmt.Errorf("commandstats: %s: %w", name, err)
	}
	micros, err := strconv.Atoi(usec)
	if err != nil {
		return fmt.Errorf("commandstats: %s: %w", name, err)
	}
	so := c[name]
	c[name] = Command{so.Calls + n, so.Time + time.Duration(micros)*time.Microsecond}
	return nil
}

func (c Commands) since(before Commands) Commands {
	more := Commands{}
	for name, now := range c {
		if then := before[name]; now.Calls > then.Calls {
			more[name] = Command{now.Calls - then.Calls, now.Time - then.Time}
		}
	}
	return more
}

// Calls sums the calls of some commands.
func (c Commands) Calls(names ...string) int {
	n := 0
	for _, name := range names {
		n += c[name].Calls
	}
	return n
}

// ScriptCalls are the commands that run a script. The library's clients send little else.
var ScriptCalls = []string{"evalsha", "eval", "evalsha_ro", "eval_ro", "fcall", "fcall_ro"}
