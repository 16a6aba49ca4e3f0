package measure

import (
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

// Usage is what this process and the masters have used so far, or in a span of time.
type Usage struct {
	CPU
	Commands Commands
	Bytes    int // that the masters received and sent
	Memory   int // that the masters have allocated
	own      int // of Bytes, those of Look itself that its own text does not count
}

// Look reads the usage so far of this process and of the masters. The masters must answer.
func Look(masters []*redistest.Master) (Usage, error) {
	u := Usage{Commands: Commands{}}
	var err error
	if u.Callers, err = OwnCPU(); err != nil {
		return u, err
	}
	for _, m := range masters {
		text, err := redis.String(m.Do("INFO", "all"))
		if err == nil {
			err = u.add(text)
		}
		if err != nil {
			return u, fmt.Errorf("bench: %s: %w", m.Addr(), err)
		}
	}
	return u, nil
}

// OwnCPU is the processor time of this process so far.
func OwnCPU() (time.Duration, error) {
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return 0, fmt.Errorf("bench: getrusage: %w", err)
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), nil
}

// add adds one master's figures.
func (u *Usage) add(info string) error {
	u.own += len(info)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var err error
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case isCommand:
			err = u.Commands.add(command, value)
		case name == "used_cpu_sys" || name == "used_cpu_user":
			var seconds float64
			seconds, err = strconv.ParseFloat(value, 64)
			u.Masters += time.Duration(seconds * float64(time.Second))
		case name == "total_net_input_bytes" || name == "total_net_output_bytes":
			err = sum(&u.Bytes, value)
		case name == "used_memory":
			err = sum(&u.Memory, value)
		}
		if err != nil {
			return fmt.Errorf("INFO: %w", err)
		}
	}
	return nil
}

func sum(into *int, text string) error {
	n, err := strconv.Atoi(text)
	*into += n
	return err
}

// Since returns the usage after an earlier one. The reply to the earlier Look does not count.
func (u Usage) Since(before Usage) Usage {
	return Usage{
		CPU:      CPU{u.Callers - before.Callers, u.Masters - before.Masters},
		Commands: u.Commands.since(before.Commands),
		Bytes:    max(0, u.Bytes-before.Bytes-before.own),
		Memory:   u.Memory - before.Memory,
	}
}
