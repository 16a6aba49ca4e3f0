// Package operators has the scripts that operators and the command send. Of programs that lock, those with package leader
// send inspect.
package operators

import (
	"embed"

	"github.com/quorumlock/quorumlock/scripts"
)

//go:embed *.lua
var lua embed.FS

func newScript(name, sha, before string, parse func(v any, keys int) (any, bool)) *scripts.Script {
	text, _ := lua.ReadFile(name + ".lua")
	return scripts.New(name, sha, before+string(text), parse)
}

var (
	inspectScript  = newScript("inspect", "5f19cc2736f8a3ccacb698679df8da1652cd5919", scripts.CounterLines+scripts.Shape, parseInspect)
	forceScript    = newScript("force", "3be440eaea50aaf6a44bfdbd1f95628db5346ac0", scripts.Shape, parseForce)
	surveyScript   = newScript("survey", "feea3fe7fae545a0535f059f199c66ebbc91fc4d", scripts.Shape, parseSurvey)
	lockersScript  = newScript("lockers", "64248587a1654e08ad407535b459f07c15e77e2a", "", parseLockers)
	countersScript = newScript("counters", "46b2b4baa68e1f90f67bd64aee196a10e319a200", "", parseCounters)
	liftScript     = newScript("lift", "efc4380a8e5934fc656f300bc89b4d62fa4262a6", "", parseLift)
)
