package catalogue

import (
	"net/http"
	"strings"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// How often a file is tried, by what goes wrong with it each time.
const (
	tries    = 5 // without progress
	refusals = 2 // of a fresh link
	spoilt   = 3 // downloads of other bytes than named
)

// once is a case that costs one more request.
func once(name string, faults ...feedsim.Fault) Case {
	return Case{Name: name, Place: Files, Faults: faults, Requests: 1 + len(faults)}
}

// forever is a case that ends the file after a fixed number of requests.
func forever(name string, requests int, faults ...feedsim.Fault) Case {
	return Case{Name: name, Place: Files, Faults: faults, Always: true, Exit: 1, Requests: requests}
}

func slow(c Case) Case {
	c.Slow, c.Requests = true, 0
	return c
}

// mid is a place in the middle of every file, in bytes.
const mid = 700

func xml(status int, code string) feedsim.Fault {
	return feedsim.Status(status, http.Header{"Content-Type": {"application/xml"}}, "<Error><Code>"+code+"</Code></Error>")
}

func fileCases() []Case {
	cases := append(expiryCases(), spoiltCases()...)
	cases = append(cases, resumeCases()...)
	return append(cases, busyCases()...)
}

func expiryCases() []Case {
	return []Case{
		once("link expired", feedsim.ExpireLink()),
		once("400 ExpiredToken", xml(400, "ExpiredToken")),
		once("400 ExpiredRequest", xml(400, "ExpiredRequest")),
		once("401", xml(401, "Unauthorized")),
		once("403 page", feedsim.Status(403, http.Header{"Content-Type": {"text/html"}}, "<html>no</html>")),
		once("link expired in the middle", feedsim.Drop(mid), feedsim.ExpireLink()),
		once("400 ExpiredToken in the middle", feedsim.Drop(mid), xml(400, "ExpiredToken")),
		{Name: "every link expires at once", Place: Files, Faults: []feedsim.Fault{feedsim.ExpireAll()}, Requests: 2, Whole: true},
		forever("403 for ever", refusals, xml(403, "AccessDenied")),
		forever("400 for ever", refusals, xml(400, "ExpiredToken")),
		forever("401 for ever", refusals, xml(401, "Unauthorized")),
		forever("403 for ever that tells what was asked", refusals, feedsim.Echo(403)),
		forever("403 for ever in the middle", 1+refusals, feedsim.Drop(mid), xml(403, "AccessDenied")),
		once("404", xml(404, "NoSuchKey")),
		forever("404 for ever", tries, xml(404, "NoSuchKey")),
		forever("410 for ever", tries, xml(410, "Gone")),
	}
}

func spoiltCases() []Case {
	return []Case{
		once("first byte flipped", feedsim.FlipByte(0)),
		once("a byte flipped", feedsim.FlipByte(mid)),
		once("last byte flipped", feedsim.FlipByte(-1)),
		forever("a byte flipped for ever", spoilt, feedsim.FlipByte(mid)),
		once("more bytes", feedsim.Append("x")),
		forever("more bytes for ever", spoilt, feedsim.Append("x")),
		once("page for a file", feedsim.HTML()),
		forever("page for ever", spoilt, feedsim.HTML()),
		once("no bytes", feedsim.Status(200, nil, "")),
		once("204", feedsim.Status(204, nil, "")),
		once("short with its own length", feedsim.Truncate(mid, feedsim.TruncateShortLength)),
		once("short in chunks", feedsim.Truncate(mid, feedsim.TruncateChunked)),
		once("short with the whole length", feedsim.Truncate(mid, feedsim.TruncateFullLength)),
		forever("short with its own length for ever", spoilt, feedsim.Truncate(mid, feedsim.TruncateShortLength)),
		once("gzip on the fly", feedsim.Gzip()),
		forever("gzip on the fly for ever", spoilt, feedsim.Gzip()),
		{Name: "stored under gzip", Place: Files, Faults: []feedsim.Fault{feedsim.Header("Content-Encoding", "gzip")}, Always: true, Requests: 1, Clean: true},
		{Name: "stored under aws-chunked", Place: Files, Faults: []feedsim.Fault{feedsim.Header("Content-Encoding", "aws-chunked")}, Always: true, Requests: 1, Clean: true},
		{Name: "no ETag", Place: Files, Faults: []feedsim.Fault{feedsim.Header("ETag", "")}, Always: true, Requests: 1, Clean: true},
		once("slice for the whole", feedsim.Slice(mid)),
		forever("slice for ever", spoilt, feedsim.Slice(mid)),
	}
}

func resumeCases() []Case {
	return []Case{
		once("dropped before the answer", feedsim.Drop(-1)),
		once("dropped at the first byte", feedsim.Drop(0)),
		once("dropped", feedsim.Drop(mid)),
		once("dropped three times", feedsim.Drop(mid), feedsim.Drop(10), feedsim.Drop(10)),
		forever("dropped before the answer for ever", 0, feedsim.Drop(-1)),
		forever("dropped for ever", tries, feedsim.Drop(mid), feedsim.Drop(0)),
		once("range ignored", feedsim.Drop(mid), feedsim.IgnoreRange()),
		once("slice with status 200", feedsim.Drop(mid), feedsim.SliceAsWhole()),
		once("wrong Content-Range", feedsim.Drop(mid), feedsim.WrongContentRange()),
		once("no Content-Range", feedsim.Drop(mid), feedsim.Header("Content-Range", "")),
		once("absurd Content-Range", feedsim.Drop(mid), feedsim.Header("Content-Range", "bytes 99999999999999999999-1/x")),
		once("other ETag", feedsim.Drop(mid), feedsim.OtherETag()),
		once("416", feedsim.Drop(mid), xml(416, "InvalidRange")),
		forever("416 for ever", 0, feedsim.Drop(mid), xml(416, "InvalidRange")),
		once("gzip of the rest", feedsim.Drop(mid), feedsim.Gzip()),
		once("flipped byte in the rest", feedsim.Drop(mid), feedsim.FlipByte(0)),
		slow(once("silence before the answer", feedsim.Stall(0, nil, 0))),
		slow(once("silence in the middle", feedsim.Stall(mid, nil, 0))),
		slow(forever("silence for ever", 0, feedsim.Stall(0, nil, 0))),
		slow(once("drip", feedsim.SlowDrip(40))),
	}
}

// beyond is a time that nobody waits for.
const beyond = 10 * 365 * 24 * time.Hour

func busyCases() []Case {
	cases := []Case{
		once("429 for a second", feedsim.RetryLater(429, time.Second, feedsim.WaitSeconds)),
		once("503 until a date", feedsim.RetryLater(503, time.Second, feedsim.WaitDate)),
		once("429 until a date that is past", feedsim.RetryLater(429, -time.Hour, feedsim.WaitDate)),
		once("503 for less than no time", feedsim.RetryLater(503, -time.Hour, feedsim.WaitSeconds)),
		once("503 with words", feedsim.Status(503, http.Header{"Retry-After": {"soon"}}, "")),
		forever("429 for ten years", 1, feedsim.RetryLater(429, beyond, feedsim.WaitSeconds)),
		forever("503 until ten years from now", 1, feedsim.RetryLater(503, beyond, feedsim.WaitDate)),
		forever("503 for more seconds than there are", 1, feedsim.Status(503, http.Header{"Retry-After": {"99999999999999999999"}}, "")),
		forever("503 for ever", tries, feedsim.Status(503, nil, "")),
		forever("500 for ever that tells what was asked", tries, feedsim.Echo(500)),
		once("header of half a megabyte", feedsim.Header("X-Long", strings.Repeat("x", 512<<10))),
	}
	for _, status := range []int{408, 425, 500, 502, 504} {
		cases = append(cases, once(http.StatusText(status), feedsim.Status(status, nil, "")))
	}
	return cases
}
