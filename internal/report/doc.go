// Package report turns what stands in a bucket into what people read: the status of each dataset,
// and the least rights that a mirror needs. It reads documents only, and changes nothing.
package report
