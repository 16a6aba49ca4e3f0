package measure

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// Commands counts calls by command over all masters, also the calls inside scripts.
type Commands map[string]int

// CountCommands reads the masters' counts since they started.
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

// Since returns the calls after an earlier count.
func (c Commands) Since(before Commands) Commands {
	more := Commands{}
	for name, n := range c {
		if n > before[name] {
			more[name] = n - before[name]
		}
	}
	return more
}

// Sent is how many commands clients sent: all except those that scripts run, and INFO, which reads
// the counts.
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
