//go:build unix && !race

package chaos

// raceDetector tells how the tests are built.
const raceDetector = false
