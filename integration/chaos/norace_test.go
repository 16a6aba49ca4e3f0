//go:build unix && !race

package chaos

// raceDetector says how the tests are built.
const raceDetector = false
