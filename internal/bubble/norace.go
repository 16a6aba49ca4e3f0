//go:build !race

package bubble

// OneProcessor does nothing without the race detector.
func OneProcessor() {}
