package transfer

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
)

func TestGuardedAddresses(t *testing.T) {
	g := &guard{allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}}
	tests := map[string]bool{
		"8.8.8.8:443": true, "[2606:4700::1]:443": true, "10.1.2.3:443": true, "[fd00:1::9]:443": true,
		"10.2.0.1:443": false, "172.16.0.1:443": false, "192.168.1.1:443": false, "169.254.169.254:80": false,
		"127.0.0.1:80": false, "127.8.8.8:80": false, "0.0.0.0:80": false, "100.64.0.1:80": false,
		"224.0.0.1:80": false, "255.255.255.255:80": false, "[::1]:80": false, "[::]:80": false,
		"[fe80::1%eth0]:80": false, "[fd00:2::1]:80": false, "[::ffff:10.2.0.1]:80": false,
		"[::ffff:127.0.0.1]:80": false, "[64:ff9b::a00:1]:80": false, "[2002:a00:1::]:80": false, "[ff02::1]:80": false,
		"[::ffff:10.1.2.3]:80": true,
	}
	for address, want := range tests {
		err := g.check(address, false)
		var refused *RefusedAddressError
		if got := err == nil; got != want || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v, allowed should be %v", address, err, want)
		}
	}
	if err := g.check("127.0.0.1:80", true); err != nil {
		t.Errorf("a link that names this machine: %v", err)
	}
	if err := g.check("10.2.0.1:80", true); err == nil {
		t.Error("localhost may lead to a private address")
	}
}

// A name that leads to a private address is refused at once and the hint names the flag.
func TestLinkIntoThePrivateNetwork(t *testing.T) {
	file := File{Name: "f", Key: "k", Size: 5, SHA256: sha256.Sum256([]byte("hello"))}
	for _, host := range []string{"10.255.255.1", "169.254.169.254", "[fe80::1]"} {
		transport := &http.Transport{}
		Guard(transport, nil, 0)
		w := &world{t: t, objects: map[string][]byte{}, creates: map[string]int{}}
		engine := New(Options{HTTP: transport, Sink: w, Linker: fixedLinks{file: file, url: "https://" + host + "/a?sig=SECRET"}})
		summary, err := engine.Copy(t.Context(), Job{Dataset: "ds", Version: 7, Files: sequence(file)}, nil)
		w.wantFailed(summary, err, file, "denied", "source", "not a public address")
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
		chosen, err := g.proxy(http.ProxyURL(proxy))(&http.Request{})
		if err != nil || chosen != proxy {
			t.Fatalf("%v, %v", chosen, err)
		}
		for to, guarded := range map[string]bool{address: false, "10.0.0.9:443": true} {
			dialer, err := g.dialer(to)
			if err != nil || (dialer.Control != nil) != guarded {
				t.Errorf("dial %s beside proxy %s: guarded %v, %v", to, text, dialer.Control != nil, err)
			}
		}
	}
}
