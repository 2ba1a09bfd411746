// Package ledger keeps when each object of a bucket was last found good, and how deep it was looked
// at: Parquet documents under _mirror/audits/ledger, one for each dataset and sixteen for all
// attachments.
//
// It reads documents and merges them; it writes nothing. What a ledger does not say was not checked:
// a lost or damaged document costs a check, never the knowledge that one is needed.
package ledger
