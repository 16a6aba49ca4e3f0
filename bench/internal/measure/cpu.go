package measure

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// CPU is processor time. Other users of the machine increase it much less than they increase
// elapsed time.
type CPU struct{ Callers, Masters time.Duration }

// readCPU returns the processor time of this process and of the masters so far.
func readCPU(all []*redistest.Master) (CPU, error) {
	var c CPU
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return c, fmt.Errorf("bench: getrusage: %w", err)
	}
	c.Callers = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, m := range all {
		text, err := redis.String(m.Do("INFO", "cpu"))
		if err != nil {
			return c, err
		}
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ":")
			if name != "used_cpu_sys" && name != "used_cpu_user" {
				continue
			}
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return c, fmt.Errorf("bench: %s: %s: %w", m.Addr(), name, err)
			}
			c.Masters += time.Duration(seconds * float64(time.Second))
		}
	}
	return c, nil
}

func (c CPU) since(before CPU) CPU {
	return CPU{c.Callers - before.Callers, c.Masters - before.Masters}
}
