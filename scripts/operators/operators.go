// Package operators has the scripts that the command sends, and a client that locks does not.
package operators

import (
	"embed"

	"github.com/quorumlock/quorumlock/scripts"
)

//go:embed *.lua
var lua embed.FS

func newScript(name, sha, before string, parse func(v any) (any, bool)) *scripts.Script {
	text, _ := lua.ReadFile(name + ".lua")
	return scripts.New(name, sha, before+string(text), parse)
}

var (
	surveyScript   = newScript("survey", "feea3fe7fae545a0535f059f199c66ebbc91fc4d", scripts.Shape, parseSurvey)
	lockersScript  = newScript("lockers", "64248587a1654e08ad407535b459f07c15e77e2a", "", parseLockers)
	countersScript = newScript("counters", "46b2b4baa68e1f90f67bd64aee196a10e319a200", "", parseCounters)
	liftScript     = newScript("lift", "efc4380a8e5934fc656f300bc89b4d62fa4262a6", "", parseLift)
)

// All returns every script of this package.
func All() []*scripts.Script {
	return []*scripts.Script{surveyScript, lockersScript, countersScript, liftScript}
}
