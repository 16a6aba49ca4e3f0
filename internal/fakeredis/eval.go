package fakeredis

import (
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/scripts"
	_ "github.com/quorumlock/quorumlock/scripts/operators" // their scripts run here, too
)

// program is a script in Go. Its keys and arguments count from 0, in Lua from 1. An error ends it by [fail].
type program func(k *Keyspace, keys, args []string) any

type known struct {
	name string
	run  program
}

var programs = map[string]program{
	"acquire": acquire,
	"read":    read,
	"renew":   renew,
	"release": release,
	"raise":   raise,
	"inspect": inspect,
	"force":   force,
	"look":    look,
	"mark":    mark,

	"acquires":  acquires,
	"releases":  releases,
	"introduce": introduce,
	"who":       who,
	"slots":     slots,
	"lockers":   lockers,
	"counters":  counters,
	"lift":      lift,
}

// bySHA returns the program of each script that the library sends.
var bySHA = sync.OnceValue(func() map[string]known {
	all := map[string]known{}
	for _, s := range scripts.All() {
		if run, written := programs[s.Name()]; written {
			all[s.SHA().(string)] = known{s.Name(), run}
		}
	}
	return all
})

// evalLocked runs a script, given by its source or by its hash.
func (m *Master) evalLocked(s *session, source bool, args []string) (any, error) {
	if len(args) < 2 {
		return nil, errSyntax
	}
	var sha string
	if source {
		sha = shaOf(args[0])
		m.scripts[sha] = true
	} else {
		sha = strings.ToLower(args[0])
	}
	script := bySHA()[sha]
	reply, err := m.runScriptLocked(script, m.scripts[sha], args[1], args[2:])
	if m.Trace != nil {
		m.Trace(s.conn.RemoteAddr().String(), script.name, args[2:], reply, err)
	}
	return reply, err
}

func (m *Master) runScriptLocked(script known, loaded bool, count string, args []string) (any, error) {
	if !loaded {
		return nil, errNoScript
	}
	if script.run == nil {
		return nil, replyError("ERR the fake does not know this script")
	}
	keys, err := strconv.Atoi(count)
	if err != nil || keys < 0 || keys > len(args) {
		return nil, replyError("ERR Number of keys can't be greater than number of args")
	}
	return m.openLocked().run(script.run, args[:keys], args[keys:])
}

// tonumber is Lua's tonumber.
func tonumber(text string) (n float64, ok bool) {
	text = strings.Trim(text, " \t\n\v\f\r")
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && strings.ContainsAny(text, "xX") {
		n, err = strconv.ParseFloat(text+"p0", 64) // Go wants an exponent after hexadecimal digits
	}
	return n, (err == nil || math.IsInf(n, 0)) && !strings.Contains(text, "_") // which Go allows within a number
}

// or is "tonumber(text) or otherwise".
func or(text string, otherwise float64) float64 {
	if n, ok := tonumber(text); ok {
		return n
	}
	return otherwise
}

// whole is string.format('%.0f', n).
func whole(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }

// millis reads an argument that the library writes as a whole number.
func millis(text string) int64 { return int64(or(text, 0)) }
