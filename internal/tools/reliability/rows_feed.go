package main

import "time"

// feedRows: the API's answers are hostile.
func feedRows() []row {
	return []row{
		{
			id: "feed-faults", unit: "faults", goal: 340,
			command: goTest("^(TestGarbageForEveryQuestion|TestRefusalsOfEveryQuestion|TestRateLimitsOnEveryQuestionAreWaitedFor|TestLiesAboutTheChain|TestLiesInAVersion|TestLiesInLinks|"+
				"TestLinksToAnotherHostCarryNoKeyAndProveTheirBytes|TestAKeyThatStopsWorkingEndsThePassAtOnce|TestARefusedKeyIsNotTriedOnEveryDatasetThatAListLacks|"+
				"TestAKeyThatIsRotatedInMidRunGoesOn|TestAKeyFileThatIsWrongAtFirstOrGoneLater|TestACurrentThatFlapsMovesNothing)$", "./mirror"),
			what: "every question to the feed answered with rubbish, refusals, rate limits and lies; keys that stop working; a current that flaps: " +
				"each pass changed only what was sound, told what was wrong, asked a bounded number of times, and the next pass over a sound feed finished the work",
		},
		{
			id: "chain-5000", unit: "versions", goal: 5000, command: goTest("^TestALongChain$", "./mirror"), limit: 20 * time.Minute,
			what: "a chain of one dataset mirrored whole, then a version more, then forgotten by the feed",
		},
		{
			id: "million-attachments", unit: "attachments", goal: 1_000_000, command: goTest("^TestAMillionAttachmentsThroughAPass$", "./mirror"), limit: time.Hour,
			what: "distinct attachments of one version brought over by one pass, with at most 64 bytes of memory a name",
		},
		{
			id: "version-answer-1GiB", unit: "answers", goal: 4, command: goTest("^TestAVersionAnswerOfAGibibyte$", "./mirror"), limit: 15 * time.Minute,
			what: "answers about a version of a gibibyte and more, streamed in flat memory: padded, too long, of entries that the manifest lacks, of one endless entry",
		},
	}
}
