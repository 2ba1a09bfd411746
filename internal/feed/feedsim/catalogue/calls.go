package catalogue

import (
	"net/http"
	"strings"
	"time"

	"feedmirror/internal/feed/feedsim"
)

// hops is how many requests a link gets whose redirects never end.
const hops = 4

func redirectCases() []Case {
	cases := []Case{
		once("moved to another port twice", feedsim.Move(302), feedsim.Move(308)),
		once("moved in the middle", feedsim.Drop(mid), feedsim.Move(307)),
		forever("redirects in a circle", spoilt*hops, feedsim.Circle()),
		forever("redirect without an address", spoilt, feedsim.Status(302, nil, "")),
		forever("304", spoilt, feedsim.Status(304, nil, "")),
		forever("redirect into a private network", 1, feedsim.RedirectTo("https://10.255.255.1/x?X-Feed-Signature=0123456789abcdef")),
		forever("redirect to the address of metadata", 1, feedsim.RedirectTo("https://169.254.169.254/latest/meta-data")),
		forever("redirect to plain http", 1, feedsim.RedirectTo("http://example.org/x?X-Feed-Signature=0123456789abcdef")),
		forever("redirect to another scheme", 1, feedsim.RedirectTo("file:///etc/passwd")),
		forever("redirect to rubbish", 1, feedsim.RedirectTo("https://%zz/?X-Feed-Signature=0123456789abcdef")),
		forever("redirect with a password", 1, feedsim.RedirectTo("https://user:0123456789abcdef@example.org/")),
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		cases = append(cases, once("moved to another port with "+http.StatusText(status), feedsim.Move(status)))
	}
	return append(cases, once("moved to another host", feedsim.MoveHost(302)))
}

// linkCases are answers to the call for links that say strange things. The files of them are fetched or
// refused, never taken for what they are not.
func linkCases() []Case {
	fine := func(name string, fault feedsim.Fault) Case {
		return Case{Name: name, Place: Links, Faults: []feedsim.Fault{fault}, Always: true, Clean: true}
	}
	bad := func(name string, fault feedsim.Fault) Case {
		return Case{Name: name, Place: Links, Faults: []feedsim.Fault{fault}, Always: true, Exit: 1}
	}
	return []Case{
		fine("expires in the past", feedsim.Expires(`"2001-01-01T00:00:00Z"`)),
		fine("expires before there was time", feedsim.Expires(`"0000-01-01T00:00:00Z"`)),
		fine("expires in the year 9999", feedsim.Expires(`"9999-12-31T23:59:59.999Z"`)),
		fine("expires in words", feedsim.Expires(`"in an hour"`)),
		fine("expires as a number", feedsim.Expires(`1792303960`)),
		fine("expires as nothing", feedsim.Expires(`null`)),
		fine("does not say when it expires", feedsim.Expires("")),
		fine("no Date", feedsim.Header("Date", "")),
		fine("a Date of 1970", feedsim.Header("Date", "Thu, 01 Jan 1970 00:00:00 GMT")),
		bad("links of other files", feedsim.WrongLinks()),
		bad("hashes of other files", feedsim.WrongHashes()),
		bad("links into a private network", feedsim.LinksTo("https://10.255.255.1")),
		bad("links to the address of metadata", feedsim.LinksTo("http://169.254.169.254")),
		bad("links to plain http", feedsim.LinksTo("http://example.org")),
		bad("links with a password", feedsim.LinksTo("https://user:0123456789abcdef@127.0.0.1")),
		bad("links of another scheme", feedsim.LinksTo("gopher://127.0.0.1")),
	}
}

// callCases are what goes wrong with any call of the API.
func callCases(place Place) []Case {
	refused := 1 // the exit code of a pass that cannot go on with its dataset
	if place == Datasets {
		refused = 4
	}
	again := func(name string, faults ...feedsim.Fault) Case {
		return Case{Name: name, Place: place, Faults: faults}
	}
	never := func(name string, requests int, fault feedsim.Fault) Case {
		return Case{Name: name, Place: place, Faults: []feedsim.Fault{fault}, Always: true, Exit: refused, Requests: requests}
	}
	denied := func(name string, requests int, fault feedsim.Fault) Case {
		c := never(name, requests, fault)
		c.Exit = 4
		return c
	}
	return []Case{
		again("dropped before the answer", feedsim.Drop(-1)),
		again("dropped", feedsim.Drop(20)),
		again("short in chunks", feedsim.Truncate(20, feedsim.TruncateChunked)),
		again("short with the whole length", feedsim.Truncate(20, feedsim.TruncateFullLength)),
		again("500 that tells what was asked", feedsim.Echo(500)),
		again("502, 503 and 504", feedsim.Status(502, nil, ""), feedsim.Status(503, nil, ""), feedsim.Status(504, nil, "")),
		again("429 for a second", feedsim.RetryLater(429, time.Second, feedsim.WaitSeconds)),
		again("503 until a date", feedsim.RetryLater(503, time.Second, feedsim.WaitDate)),
		again("429 for less than no time", feedsim.RetryLater(429, -time.Hour, feedsim.WaitSeconds)),
		again("header of half a megabyte", feedsim.Header("X-Long", strings.Repeat("x", 512<<10))),
		slow(again("silence before the answer", feedsim.Stall(0, nil, 0))),
		slow(again("silence in the answer", feedsim.Stall(20, nil, 0))),
		slow(again("drip", feedsim.SlowDrip(40))),
		never("503 for ever", tries, feedsim.Status(503, nil, "")),
		never("429 for ten years", 1, feedsim.RetryLater(429, beyond, feedsim.WaitSeconds)),
		never("503 until ten years from now", 1, feedsim.RetryLater(503, beyond, feedsim.WaitDate)),
		never("page", 1, feedsim.HTML()),
		never("gzip", 1, feedsim.Gzip()),
		never("moved to another port", 1, feedsim.Move(307)),
		never("moved to another host", 1, feedsim.MoveHost(302)),
		never("moved to another scheme", 1, feedsim.RedirectTo("ftp://example.org/?X-Feed-Signature=0123456789abcdef")),
		never("moved to rubbish", 1, feedsim.RedirectTo("https://%zz/?X-Feed-Signature=0123456789abcdef")),
		never("redirects in a circle", 1, feedsim.Circle()),
		never("400 that tells what was asked", 1, feedsim.Echo(400)),
		denied("401 for ever", 2, feedsim.Echo(401)),
		denied("403 for ever", 1, feedsim.Echo(403)),
	}
}
