// Package semaphores has the script that package semaphore sends, and the command.
package semaphores

import (
	"embed"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/scripts"
)

//go:embed *.lua
var lua embed.FS

var slotsScript = newScript("slots", "20463fe502899db97eef7fe75568303745bff4d8", parseSlots)

func newScript(name, sha string, parse func(v any, slots int) (any, bool)) *scripts.Script {
	text, _ := lua.ReadFile(name + ".lua")
	return scripts.New(name, sha, string(text), parse)
}

// Slots reads which of the slots 0 to n−1 of a semaphore are taken on a node. The reply is a Hint.
func Slots(semaphore string, n int) scripts.Call {
	args := append(make([]any, 0, 2+n), n)
	for slot := range n {
		args = append(args, scripts.SlotName(semaphore, slot))
	}
	return slotsScript.Call(append(args, scripts.Channel(scripts.SlotsName(semaphore)))...)
}

// Hint is the reply to Slots.
type Hint struct {
	Free    []int         // in ascending order
	Wait    time.Duration // the shortest time to live of a taken slot; −1 if none of them expires
	Waiting int           // how many connections subscribe to the channel; 0 if the user may not ask
}

func parseSlots(v any, slots int) (any, bool) {
	f := scripts.FieldsOf(v)
	digits := f.Text()
	hint := Hint{Wait: f.TTL(), Waiting: f.Number(0, 1<<31)}
	for slot, digit := range digits {
		if digit == '0' {
			hint.Free = append(hint.Free, slot)
		}
	}
	return hint, f.End() && len(digits) == slots && strings.Trim(digits, "01") == ""
}
