package netclient

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// longWait stands for a Retry-After whose seconds do not fit: never a short pause.
const longWait = time.Duration(math.MaxInt64)

// RetryAfter reads how long an answer asks to wait: seconds, or a date, which is taken against the
// server's own clock when it sent one and against now when not. Rubbish, negative numbers and times
// that are past are zero; numbers beyond any use are as long as a duration can be.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if isDigits(text) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longWait/time.Second) {
			return longWait
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if served, err := http.ParseTime(header.Get("Date")); err == nil {
		now = served
	}
	return max(date.Sub(now), 0)
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
