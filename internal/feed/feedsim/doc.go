// Package feedsim is a simulated feed: the whole contract on loopback, deterministic from a seed and a clock. It serves
// tests and the demo. It imports nothing of this module outside its own folder, so that a misreading of the contract
// cannot hide in code shared with the client.
//
//	feed, err := feedsim.Start(feedsim.Options{Seed: 1, Clock: feedsim.NewClock(start)})
//	defer feed.Close()
//	permits, err := feed.AddDataset(feedsim.DatasetSpec{ID: "ds_permits", Place: "fl-county-orange", Character: feedsim.Points})
//	first, err := permits.Release(feedsim.ReleaseSpec{})               // the first version is a reload
//	second, err := permits.Release(feedsim.ReleaseSpec{Add: 3, Change: 2, Remove: 1, SkipNumbers: 2})
//	third, err := permits.Release(feedsim.ReleaseSpec{Major: true})    // removes a column
//	err = permits.ReleaseAgain(third)                                  // withdrawn: 410, current steps back
//	fourth, err := permits.ReleaseRebuild()
//	feed.Script(feedsim.Rule{Side: feedsim.SideLinks, File: "original"}, feedsim.Drop(100))
//	feed.Clock().Advance(time.Hour)                                    // links have expired
//	// Point the client at feed.URL() with the key feed.Key(), then ask what it did:
//	feed.Log(); feed.Completed(); feed.SignedNames(); feed.LinkCalls(); feed.ViolationsSeen()
//
// Run an end-to-end test once under each of Alternatives. DatasetSpec, ReleaseSpec and Dataset's methods make every
// situation of a dataset's chain; Override functions make what no honest feed sends; AddBulk makes volume.
// It must not be used to decide what the contract is: the feed's own documents do.
package feedsim
