//go:build race

package rows

// raceDetector tells that reading and writing of memory is watched, which costs our code more time than
// the decoders, of which much is assembly.
const raceDetector = true
