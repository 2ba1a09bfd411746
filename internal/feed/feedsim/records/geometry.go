package records

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// The WKB codes of the geometry types that the simulator writes.
const (
	wkbPoint      = 1
	wkbLineString = 2
	wkbPolygon    = 3
)

type position struct{ x, y float64 }

// near draws a position in central Florida, where the documents' example dataset lies.
func near(random *rand.Rand) position {
	round := func(v float64) float64 { return math.Round(v*1e6) / 1e6 }
	return position{x: round(-81.6 + random.Float64()*0.6), y: round(28.3 + random.Float64()*0.4)}
}

func wkbHeader(code uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{1}, code)
}

func appendPositions(b []byte, positions []position) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(positions)))
	for _, p := range positions {
		b = appendPosition(b, p)
	}
	return b
}

func appendPosition(b []byte, p position) []byte {
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.x))
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(p.y))
}

// randomGeometry draws a geometry of the type as well-known binary.
func randomGeometry(random *rand.Rand, geometryType string) []byte {
	centre := near(random)
	switch geometryType {
	case "LineString":
		line := []position{centre, {centre.x + 0.01, centre.y}, {centre.x + 0.01, centre.y + 0.02}}
		return appendPositions(wkbHeader(wkbLineString), line)
	case "Polygon":
		side := 0.001 + random.Float64()*0.01
		ring := []position{
			centre, {centre.x + side, centre.y}, {centre.x + side, centre.y + side},
			{centre.x, centre.y + side}, centre,
		}
		one := binary.LittleEndian.AppendUint32(wkbHeader(wkbPolygon), 1)
		return appendPositions(one, ring)
	default:
		return appendPosition(wkbHeader(wkbPoint), centre)
	}
}

// bounds returns the box around the positions of WKB geometries written by this package.
func bounds(geometries [][]byte) (box [4]float64, any bool) {
	box = [4]float64{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, wkb := range geometries {
		skip := map[uint32]int{wkbPoint: 5, wkbLineString: 9, wkbPolygon: 13}[binary.LittleEndian.Uint32(wkb[1:5])]
		for rest := wkb[skip:]; len(rest) >= 16; rest = rest[16:] {
			x := math.Float64frombits(binary.LittleEndian.Uint64(rest[:8]))
			y := math.Float64frombits(binary.LittleEndian.Uint64(rest[8:16]))
			box = [4]float64{math.Min(box[0], x), math.Min(box[1], y), math.Max(box[2], x), math.Max(box[3], y)}
			any = true
		}
	}
	return box, any
}
