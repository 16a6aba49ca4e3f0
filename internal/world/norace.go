//go:build !race

package world

// OneProcessor does nothing without the race detector.
func OneProcessor() {}
