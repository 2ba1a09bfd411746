// Package feed owns the REST client of the Ploti Data Feeds API: paging, streaming decoding
// that is strict about what the mirror needs and lenient about the rest, the feed's documented
// refusals as fault kinds, and the rule that the API key goes to the API's exact origin only.
//
// It does not fetch files (package transfer does) and knows nothing of the bucket.
package feed
