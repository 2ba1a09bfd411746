// Package catalogue lists what goes wrong between a mirror and its feed, one named case each, with what a
// mirror must make of it. Tests run a whole pass under every case: those that count requests in process,
// and those that search everything the real program says and stores for secrets. A case that is added here
// is run by all of them.
//
// It knows feedsim and nothing else: neither how a mirror is run nor how it retries.
package catalogue
