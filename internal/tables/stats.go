package tables

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"feedmirror/internal/parquetinfo"
)

// maxStatColumns is how many columns get bounds: as many as Delta's own writer gives by default.
const maxStatColumns = 32

// maxStatRunes is how much of a string goes into a bound. A lower bound may be cut anywhere; an upper
// one that is longer is left out.
const maxStatRunes = 32

type statsJSON struct {
	NumRecords int64          `json:"numRecords"`
	MinValues  map[string]any `json:"minValues,omitempty"`
	MaxValues  map[string]any `json:"maxValues,omitempty"`
}

// statsOf returns the statistics of a file as a log's add carries them: rows, and bounds by which
// engines skip files. A bound that could be wrong in one engine is left out: floats (NaN sorts above
// all numbers in Spark, and Parquet's bounds ignore it), booleans, bytes, lists and structs.
func statsOf(part *parquetinfo.PartInfo) (string, error) {
	stats := statsJSON{NumRecords: part.Rows, MinValues: map[string]any{}, MaxValues: map[string]any{}}
	for i := range part.Fields {
		if len(stats.MinValues) >= maxStatColumns {
			break
		}
		field := &part.Fields[i]
		if field.Bounds == nil || len(field.Bounds.Lower) == 0 {
			continue
		}
		lower, upper, ok := boundsOf(field)
		if ok {
			stats.MinValues[field.Name], stats.MaxValues[field.Name] = lower, upper
		}
	}
	text, err := json.Marshal(stats)
	return string(text), err
}

// boundsOf returns a column's bounds over all row groups, in Delta's spelling.
func boundsOf(field *parquetinfo.Field) (lower, upper any, ok bool) {
	kind, err := typeOf(field)
	if err != nil {
		return nil, nil, false
	}
	switch kind.Name {
	case typeString:
		return stringBounds(field.Bounds)
	case typeByte, typeShort, typeInteger, typeLong, typeDate, typeTimestamp, typeTimestampNTZ, typeDecimal:
		return numberBounds(field, kind)
	}
	return nil, nil, false
}

func stringBounds(b *parquetinfo.Bounds) (lower, upper any, ok bool) {
	low, high := string(b.Lower[0]), string(b.Upper[0])
	for _, value := range b.Lower {
		low = min(low, string(value))
	}
	for _, value := range b.Upper {
		high = max(high, string(value))
	}
	if !utf8.ValidString(low) || !utf8.ValidString(high) || utf8.RuneCountInString(high) > maxStatRunes {
		return nil, nil, false
	}
	if runes := []rune(low); len(runes) > maxStatRunes {
		low = string(runes[:maxStatRunes])
	}
	return low, high, true
}

func numberBounds(field *parquetinfo.Field, kind Type) (lower, upper any, ok bool) {
	var low, high *big.Int
	for i := range field.Bounds.Lower {
		l, lok := integer(field.Physical, field.Bounds.Lower[i])
		h, hok := integer(field.Physical, field.Bounds.Upper[i])
		if !lok || !hok || l.Cmp(h) > 0 {
			return nil, nil, false
		}
		if low == nil || l.Cmp(low) < 0 {
			low = l
		}
		if high == nil || h.Cmp(high) > 0 {
			high = h
		}
	}
	lower, lok := spell(low, field.Annotation, kind, false)
	upper, hok := spell(high, field.Annotation, kind, true)
	return lower, upper, lok && hok
}

// integer decodes a PLAIN value: little-endian numbers, and big-endian two's complement for decimals
// in bytes (Parquet format, "Statistics" and "DECIMAL").
func integer(physical format.Type, value []byte) (*big.Int, bool) {
	switch {
	case physical == format.Int32 && len(value) == 4:
		return big.NewInt(int64(int32(binary.LittleEndian.Uint32(value)))), true //nolint:gosec // the bits are a signed number
	case physical == format.Int64 && len(value) == 8:
		return big.NewInt(int64(binary.LittleEndian.Uint64(value))), true //nolint:gosec // the bits are a signed number
	case (physical == format.ByteArray || physical == format.FixedLenByteArray) && len(value) > 0 && len(value) <= 16:
		n := new(big.Int).SetBytes(value)
		if value[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(value))*8))
		}
		return n, true
	}
	return nil, false
}

// spell writes a number as Delta's statistics have it. Timestamps have milliseconds: a lower bound is
// rounded down, an upper one up, so that both stay bounds.
func spell(n *big.Int, a parquetinfo.Annotation, kind Type, up bool) (any, bool) {
	switch kind.Name {
	case typeDecimal:
		return json.RawMessage(decimalText(n, kind.Scale)), true
	case typeDate:
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(n.Int64())).Format("2006-01-02"), inYears(n, 24*time.Hour)
	case typeTimestamp, typeTimestampNTZ:
		unit := time.Millisecond
		if a.Unit == parquetinfo.Micros {
			unit = time.Microsecond
		}
		if !inYears(n, unit) {
			return nil, false
		}
		return timestampText(n.Int64(), unit, kind.Name == typeTimestamp, up), true
	}
	return json.RawMessage(n.String()), true
}

// inYears reports whether a time lies in the years 0001 to 9999, which four digits can spell.
func inYears(n *big.Int, unit time.Duration) bool {
	const first, last = -62135596800, 253402300799 // seconds
	perSecond := big.NewRat(int64(unit), int64(time.Second))
	seconds := new(big.Rat).Mul(new(big.Rat).SetInt(n), perSecond)
	return seconds.Cmp(big.NewRat(first, 1)) >= 0 && seconds.Cmp(big.NewRat(last, 1)) < 0
}

func timestampText(n int64, unit time.Duration, zone, up bool) string {
	at := time.UnixMilli(n).UTC()
	if unit == time.Microsecond {
		at = time.UnixMicro(n).UTC()
	}
	whole := at.Truncate(time.Millisecond)
	if up && whole.Before(at) {
		whole = whole.Add(time.Millisecond)
	}
	text := whole.Format("2006-01-02T15:04:05.000")
	if zone {
		text += "Z"
	}
	return text
}

func decimalText(n *big.Int, scale int) string {
	if scale == 0 {
		return n.String()
	}
	digits := new(big.Int).Abs(n).String()
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	point := len(digits) - scale
	return fmt.Sprintf("%s%s.%s", sign, digits[:point], digits[point:])
}
