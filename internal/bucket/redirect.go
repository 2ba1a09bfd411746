package bucket

import "net/http"

// Unredirected returns client with redirects handed back as answers instead of followed: a store
// redirects to another region or account, where a signed request is refused, and the headers of a
// session's credentials would go along to whatever host is named.
func Unredirected(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
