// Package audit reads a bucket and says whether it is what was published. It needs neither the feed
// nor anybody's word: records, manifests and bytes are compared with each other.
//
// It sees a reader only and changes nothing. What was not checked is reported as not checked, never
// as good; a bad read is repeated before anything is called corrupt; what cannot be read, is
// archived or is in progress has a class of its own.
package audit
