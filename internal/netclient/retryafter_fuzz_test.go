package netclient_test

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"feedmirror/internal/netclient"
)

// FuzzRetryAfter: a wait is never negative, and never shorter than the seconds that were asked for.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range [][2]string{
		{"120", ""}, {"-1", ""}, {"99999999999999999999", ""}, {"9223372036", ""}, {"9223372037", ""}, {"1.5", ""}, {"", ""},
		{"Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:27:30 GMT"}, {"Wednesday, 21-Oct-26 07:28:00 GMT", "x"}, {"Wed Oct 21 07:28:00 9999", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	now := time.Date(2026, 10, 21, 7, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, after, date string) {
		got := netclient.RetryAfter(http.Header{"Retry-After": {after}, "Date": {date}}, now)
		if got < 0 {
			t.Fatalf("%q at %q: %s", after, date, got)
		}
		if strings.Trim(after, "0123456789") != "" || after == "" {
			return
		}
		seconds, _ := new(big.Int).SetString(after, 10)
		asked := seconds.Mul(seconds, big.NewInt(int64(time.Second)))
		const most = time.Duration(1<<63 - 1)
		if asked.Cmp(big.NewInt(int64(got))) > 0 && got != most {
			t.Fatalf("%q: %s is shorter", after, got)
		}
	})
}
