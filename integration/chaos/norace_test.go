//go:build unix && !race

package chaos

// raceDetector: the contenders are built as the tests are.
const raceDetector = false
