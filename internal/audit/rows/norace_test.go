//go:build !race

package rows

const raceDetector = false
