//go:build unix && !race

package chaos

// raceDetector tells how the contenders are built: as the tests are.
const raceDetector = false
