// Package open picks the adapter for a bucket URL and reads the URL's settings. It decides
// nothing else.
package open
