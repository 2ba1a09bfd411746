// Package netclient builds the HTTP clients of the feed's API, of signed links and of stores, so
// that proxies, certificate authorities and time limits mean the same everywhere.
//
// It knows nothing of keys, links or buckets and adds no header. A client made here has no limit
// on the whole request: a file may take hours. It limits what can hang without moving a byte
// (connect, TLS, the wait for the answer's header); whoever reads a body limits its pauses.
package netclient
