package sim

import (
	"flag"
	"testing"
)

var crowdSeeds = flag.Int("sim.crowds", 30, "how many seeds TestCrowds runs, from 1 on")

// The same must hold if requests of several flows share runs of a script, under every fault.
func TestCrowds(t *testing.T) {
	judgeSeeds(t, *crowdSeeds, newCrowdPlan).want(t, 21, map[string]float64{"acquires": 10, "releases": 3,
		"acquires of mixed outcomes": 5, "acquires refused": 0.5, "acquired": 20})
}
