package measure

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Commands counts calls by command, those inside scripts too, over all masters.
type Commands map[string]int

// CountCommands reads what the masters have counted since they started.
func CountCommands(all []*redistest.Master) (Commands, error) {
	counts := Commands{}
	for _, m := range all {
		text, err := redis.String(m.Do("INFO", "commandstats"))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if !found {
				continue
			}
			calls, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(calls)
			if err != nil {
				return nil, fmt.Errorf("bench: %s: commandstats: %w", m.Addr(), err)
			}
			counts[name] += n
		}
	}
	return counts, nil
}

// Since returns what came on top of an earlier count.
func (c Commands) Since(before Commands) Commands {
	more := Commands{}
	for name, n := range c {
		if n > before[name] {
			more[name] = n - before[name]
		}
	}
	return more
}

// Sent is how many of them clients sent: all but those that scripts run and INFO, by which they were counted.
func (c Commands) Sent(inScripts ...string) int {
	sent := 0
	for _, n := range c {
		sent += n
	}
	for _, name := range append(inScripts, "info") {
		sent -= c[name]
	}
	return sent
}
