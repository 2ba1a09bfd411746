// Package bucket owns the store port: what the mirror asks of a bucket, in interfaces of a few
// methods, and the rules that hold for every store (keys, verified bodies, counted requests,
// retries). The adapters live in packages below it, one a service; package open picks one by
// URL. It knows nothing of versions, records or pointers: keys are opaque here.
//
// Only this tree imports gocloud.dev and the cloud SDKs, so that what a store can do is decided
// in one place.
package bucket
