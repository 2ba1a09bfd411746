package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"feedmirror/internal/evidence"
	"feedmirror/internal/fault"
)

func TestGuardedAddresses(t *testing.T) {
	tally := evidence.Count(t, "links-guard")
	g := &guard{options: GuardOptions{Allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}}}
	tests := map[string]bool{
		"8.8.8.8:443": true, "[2606:4700::1]:443": true, "[2a00:1450::1]:443": true, "10.1.2.3:443": true, "[fd00:1::9]:443": true,
		"10.2.0.1:443": false, "172.16.0.1:443": false, "192.168.1.1:443": false, "169.254.169.254:80": false,
		"127.0.0.1:80": false, "127.8.8.8:80": false, "0.0.0.0:80": false, "0.1.2.3:80": false,
		"100.64.0.1:80": false, "100.127.255.255:80": false, "192.0.0.8:80": false, "192.0.2.1:80": false,
		"198.18.0.1:80": false, "198.51.100.1:80": false, "203.0.113.1:80": false, "224.0.0.1:80": false,
		"240.0.0.1:80": false, "255.255.255.255:80": false, "[::1]:80": false, "[::]:80": false,
		"[fe80::1%eth0]:80": false, "[fec0::1]:80": false, "[fd00:2::1]:80": false, "[fc00::1]:80": false,
		"[ff02::1]:80": false, "[ff0e::1]:80": false, "[100::1]:80": false, "[2001::1]:80": false,
		"[2001:db8::1]:80": false, "[3fff::1]:80": false,
		// IPv4 in IPv6 clothes: mapped, compatible, translated, by NAT64 and 6to4.
		"[::ffff:10.2.0.1]:80": false, "[::ffff:127.0.0.1]:80": false, "[::ffff:10.1.2.3]:80": true, "[::7f00:1]:80": false,
		"[::ffff:0:a00:1]:80": false, "[64:ff9b::a00:1]:80": false, "[64:ff9b::7f00:1]:80": false, "[64:ff9b::a9fe:a9fe]:80": false,
		"[64:ff9b::808:808]:443": true, "[64:ff9b::a01:203]:443": true, "[64:ff9b:1::808:808]:80": false, "[2002:a00:1::]:80": false,
		"[2002:808:808::]:80": false,
		"no address":          false,
	}
	tally.Add(len(tests))
	for address, want := range tests {
		err := g.check(address)
		var refused *RefusedAddressError
		if got := err == nil; got != want || err != nil && !errors.As(err, &refused) && address != "no address" {
			t.Errorf("%s: %v, allowed should be %v", address, err, want)
		}
	}
	local := &guard{options: GuardOptions{Loopback: true}}
	for address, want := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true, "10.2.0.1:80": false, "0.0.0.0:80": false} {
		if err := local.check(address); (err == nil) != want {
			t.Errorf("a feed on this machine, link to %s: %v, allowed should be %v", address, err, want)
		}
	}
}

// engineFor returns an engine whose links all are the one given, through a guarded transport.
func engineFor(t *testing.T, transport *http.Transport, options GuardOptions, link string) (engine *Engine, w *world, file File) {
	t.Helper()
	file = File{Name: "f", Key: "k", Size: 5, SHA256: sha256.Sum256([]byte("hello"))}
	Guard(transport, options)
	t.Cleanup(transport.CloseIdleConnections)
	w = &world{t: t, objects: map[string][]byte{}, creates: map[string]int{}, counts: new(Counts)}
	return New(Options{HTTP: transport, Sink: w, Counts: w.counts, Linker: fixedLinks{file: file, url: link}}), w, file
}

// A link to an address that is not public is refused at once and the hint names the flag.
func TestLinkIntoThePrivateNetwork(t *testing.T) {
	for _, host := range []string{"10.255.255.1", "169.254.169.254", "[fe80::1]", "127.0.0.1:1", "localhost:1", "[::1]:1", "0.0.0.0:1"} {
		engine, w, file := engineFor(t, &http.Transport{}, GuardOptions{}, "https://"+host+"/a?sig=SECRET")
		summary, err := engine.Copy(t.Context(), Job{Dataset: "ds", Version: 7, Files: sequence(file)}, nil)
		w.wantFailed(summary, err, file, "denied", "source", "not a public address")
		if hint := fault.HintOf(summary.Failures[0].Err); !strings.Contains(hint, "--allow-private-links") {
			t.Errorf("the hint is %q", hint)
		}
		if w.counts.Requests.Load() != 1 {
			t.Errorf("%s: %d tries", host, w.counts.Requests.Load())
		}
	}
}

// nameServer answers each look-up of any name with the next of the addresses, the last one for ever.
func nameServer(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	server, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answered := 0
		for {
			packet := make([]byte, 512)
			n, from, err := server.ReadFrom(packet)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if err := query.Unpack(packet[:n]); err != nil {
				t.Errorf("look-up: %v", err)
				return
			}
			question := query.Questions[0]
			answer := dnsmessage.Message{
				Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true},
				Questions: query.Questions,
			}
			if question.Type == dnsmessage.TypeA {
				address := netip.MustParseAddr(addresses[min(answered, len(addresses)-1)]).As4()
				answered++
				answer.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class},
					Body:   &dnsmessage.AResource{A: address},
				}}
			}
			packed, err := answer.Pack()
			if err == nil {
				_, err = server.WriteTo(packed, from)
			}
			if err != nil {
				t.Errorf("answer look-up: %v", err)
			}
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// A name that led to an allowed address and then leads elsewhere (DNS rebinding) is refused: the
// address is checked when it is dialled, each time.
func TestANameThatChangesItsAddress(t *testing.T) {
	var reached sync.Map
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Store(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String(), true)
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte("hello"))
	})
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com" // the certificate of httptest
	engine, w, file := engineFor(t, transport, GuardOptions{
		Allowed:  []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Resolver: nameServer(t, "127.0.0.1", "127.0.0.2"),
	}, "https://links.example.org:"+port+"/a?sig=SECRET")
	job := Job{Dataset: "ds", Version: 7, Files: sequence(file)}
	if summary, err := engine.Copy(t.Context(), job, nil); err != nil || summary.Copied != 1 {
		t.Fatalf("first: %+v, %v", summary, err)
	}
	delete(w.objects, file.Key)
	summary, err := engine.Copy(t.Context(), job, nil)
	w.wantFailed(summary, err, file, "denied", "source", "127.0.0.2")
	if _, other := reached.Load("127.0.0.2:" + port); other {
		t.Error("the other address was reached")
	}
}

// A proxy's address is the operator's choice, that of any other host is not.
func TestProxyIsNotGuarded(t *testing.T) {
	for text, address := range map[string]string{
		"http://egress.internal:3128": "egress.internal:3128", "http://egress.internal": "egress.internal:80",
		"https://egress.internal": "egress.internal:443", "socks5://10.0.0.1": "10.0.0.1:1080",
	} {
		proxy, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		g := &guard{}
		chosen, err := g.choose(http.ProxyURL(proxy))(requestTo("files.example.org"))
		if err != nil || chosen != proxy {
			t.Fatalf("%v, %v", chosen, err)
		}
		for to, guarded := range map[string]bool{address: false, "10.0.0.9:443": true} {
			if dialer := g.dialer(to); (dialer.Control != nil) != guarded {
				t.Errorf("dial %s beside proxy %s: guarded %v", to, text, dialer.Control != nil)
			}
		}
	}
}

func requestTo(host string) *http.Request {
	return &http.Request{URL: &url.URL{Scheme: "https", Host: host}}
}

// Behind a proxy nobody but the proxy sees an address: what can be known of a host decides.
func TestHostsBehindAProxy(t *testing.T) {
	tally := evidence.Count(t, "links-guard")
	proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: "egress.internal:3128"})
	listed := []string{"*.s3.amazonaws.com", "files.internal", "203.0.113.9"}
	allowed := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("203.0.113.0/24")}
	tests := []struct {
		host           string
		open, withList bool // goes through without a list, with it
	}{
		{"files.example.org", true, false}, {"bucket.s3.amazonaws.com", true, true}, {"bucket.S3.AMAZONAWS.com.", true, true},
		{"s3.amazonaws.com", true, false}, {"bucket.s3.amazonaws.com.evil.example", true, false}, {"bucket.s3.amazonaws.com:8443", true, true},
		{"localhost", false, false}, {"LOCALHOST", false, false}, {"localhost.", false, false}, {"a.localhost", false, false},
		{"metadata.google.internal", false, false}, {"files.internal", false, true}, {"printer.local", false, false},
		{"nas.home.arpa", false, false}, {"host.localdomain", false, false}, {"kubernetes", false, false}, {"api.svc.cluster.local", false, false},
		{"127.1", false, false}, {"2130706433", false, false}, {"0x7f.0.0.0x1", false, false}, {"127.0.0.1", false, false},
		{"[::1]", false, false}, {"169.254.169.254", false, false}, {"10.2.0.1", false, false}, {"[::ffff:10.2.0.1]", false, false},
		{"8.8.8.8", true, false}, {"10.1.0.7", true, false}, {"203.0.113.9", true, true}, {"203.0.113.8", true, false},
	}
	tally.Add(2 * len(tests))
	for _, test := range tests {
		for list, want := range map[bool]bool{false: test.open, true: test.withList} {
			warned := 0
			options := GuardOptions{Allowed: allowed, Unchecked: func() { warned++ }}
			if list {
				options.Hosts = listed
			}
			g := &guard{options: options}
			var err error
			for range 2 {
				_, err = g.choose(proxy)(requestTo(test.host))
			}
			if (err == nil) != want {
				t.Errorf("%s, list %v: %v, want it to pass: %v", test.host, list, err, want)
			}
			_, literal := netip.ParseAddr(strings.Trim(test.host, "[]"))
			if expect := err == nil && !list && literal != nil; (warned == 1) != expect || warned > 1 {
				t.Errorf("%s, list %v: warned %d times, want it once: %v", test.host, list, warned, expect)
			}
			if err != nil && connectProblem(err).verdict != final {
				t.Errorf("%s: %v would be tried again", test.host, err)
			}
		}
	}
}

// A list of hosts holds without a proxy too, beside the check of addresses.
func TestListOfHostsWithoutAProxy(t *testing.T) {
	engine, w, file := engineFor(t, &http.Transport{}, GuardOptions{Loopback: true, Hosts: []string{"files.example.org"}}, "http://localhost:1/a?sig=SECRET")
	summary, err := engine.Copy(t.Context(), Job{Dataset: "ds", Version: 7, Files: sequence(file)}, nil)
	w.wantFailed(summary, err, file, "denied", "source", `"localhost", which is not among the hosts`)
	if hint := fault.HintOf(summary.Failures[0].Err); !strings.Contains(hint, "--links-hosts") {
		t.Errorf("the hint is %q", hint)
	}
	g := &guard{options: GuardOptions{Hosts: []string{"files.example.org"}}}
	if proxy, err := g.choose(nil)(requestTo("files.example.org")); proxy != nil || err != nil {
		t.Errorf("%v, %v", proxy, err)
	}
	if err := g.check("10.0.0.1:443"); err == nil {
		t.Error("the list switches the check of addresses off")
	}
}

// hop answers a request with a redirect to where its path says.
func hop(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
	_, _ = fmt.Fprintf(w, "moved, asked was %s", r.URL)
}
