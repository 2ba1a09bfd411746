package attachments

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// nameHash stands for an attachment's name: sha256, cut to 128 bits. Two names of a version that
// share it would be refused as a duplicate; finding such a pair takes 2^64 tries.
type nameHash [16]byte

// factHash stands for size and sha256: sha256 of both, cut to 80 bits: chance hides one of 10^24 contradictions.
type factHash [10]byte

type nameEntry struct {
	name nameHash
	fact factHash
}

// Agreement says where an attachment of a manifest stands in the version's answer.
type Agreement int

// The agreements.
const (
	InBoth       Agreement = iota // the answer names it too, with the same size and sha256
	OnlyManifest                  // the answer does not name it; its links decide whether it is lost
)

// Names is the compact table of the attachments in a version's answer, against which the
// version's manifest is streamed: Add each of the answer, Seal, Match each of the manifest,
// Finish. It keeps 26 bytes and a bit for each name of the answer and 16 bytes for each name that
// only the manifest has. The zero value is ready. It is not safe for concurrent use.
type Names struct {
	answer     table[nameEntry]
	matched    bits
	count      int // set bits in matched
	manifest   table[nameHash]
	duplicates []nameHash // the first few, to be found again by name
	repeated   int        // all of them
	sealed     bool
}

// maxDuplicates bounds the duplicates that are remembered by name: one is enough for a message.
const maxDuplicates = 16

// Add enters an attachment of the version's answer.
func (n *Names) Add(a manifest.Attachment) {
	n.sealed = false
	n.answer.add(nameEntry{name: hashName(a.Name), fact: hashFact(a)})
}

// Len returns the number of attachments that were added.
func (n *Names) Len() int { return n.answer.length }

// Seal ends the adding. A name that was added twice is a fault.Malformed; Duplicated tells which.
func (n *Names) Seal() error {
	n.answer.sort(func(a, b *nameEntry) int { return bytes.Compare(a.name[:], b.name[:]) })
	n.sealed = true
	n.duplicates, n.repeated = nil, 0
	for i := 1; i < n.answer.length; i++ {
		if n.answer.at(i).name == n.answer.at(i-1).name {
			n.repeat(n.answer.at(i).name)
		}
	}
	n.Restart()
	return n.duplicateError("the version's answer")
}

// Restart forgets what was matched, for a manifest that is streamed again from its start.
func (n *Names) Restart() {
	n.matched, n.count = newBits(n.answer.length), 0
	n.manifest.truncate(0)
}

// Match compares an attachment of the manifest with the answer. Another size or sha256 than the
// answer's, or a name that was matched before, is a fault.Malformed that names the attachment.
func (n *Names) Match(a manifest.Attachment) (Agreement, error) {
	if !n.sealed {
		return 0, unsealed("match attachment", a.Name)
	}
	i, ok := n.find(hashName(a.Name))
	if !ok {
		n.manifest.add(hashName(a.Name))
		return OnlyManifest, nil
	}
	if !n.matched.set(i) {
		return 0, contradiction(a.Name, errors.New("the manifest lists this name twice"))
	}
	n.count++
	if n.answer.at(i).fact != hashFact(a) {
		return 0, contradiction(a.Name, fmt.Errorf(
			"the manifest says %d bytes with sha256 %s, the version's answer says otherwise", a.Size, a.SHA256))
	}
	return InBoth, nil
}

// Finish ends the matching and returns how many names only the answer has (Unmatched tells
// which). A name that only the manifest has and lists twice is a fault.Malformed; Duplicated
// tells which.
func (n *Names) Finish() (unmatched int, err error) {
	if !n.sealed {
		return 0, unsealed("match attachments", "")
	}
	n.manifest.sort(func(a, b *nameHash) int { return bytes.Compare(a[:], b[:]) })
	n.duplicates, n.repeated = nil, 0
	for i := 1; i < n.manifest.length; i++ {
		if *n.manifest.at(i) == *n.manifest.at(i - 1) {
			n.repeat(*n.manifest.at(i))
		}
	}
	return n.answer.length - n.count, n.duplicateError("the manifest")
}

// Unmatched reports whether the answer has this name and no attachment of the manifest matched
// it. Whoever has to name one streams the answer again.
func (n *Names) Unmatched(name string) bool {
	if !n.sealed {
		return false
	}
	i, ok := n.find(hashName(name))
	return ok && !n.matched.has(i)
}

// Duplicated reports whether the last Seal or Finish met this name twice. Of very many it knows
// the first sixteen.
func (n *Names) Duplicated(name string) bool {
	hash := hashName(name)
	for _, duplicate := range n.duplicates {
		if duplicate == hash {
			return true
		}
	}
	return false
}

func (n *Names) repeat(name nameHash) {
	n.repeated++
	if len(n.duplicates) < maxDuplicates {
		n.duplicates = append(n.duplicates, name)
	}
}

func (n *Names) duplicateError(where string) error {
	if n.repeated == 0 {
		return nil
	}
	return contradiction("", fmt.Errorf("%s lists names twice, in %d cases", where, n.repeated))
}

func (n *Names) find(name nameHash) (int, bool) {
	i := n.answer.search(func(entry *nameEntry) bool { return bytes.Compare(entry.name[:], name[:]) < 0 })
	return i, i < n.answer.length && n.answer.at(i).name == name
}

func hashName(name string) nameHash {
	sum := sha256.Sum256([]byte(name))
	return nameHash(sum[:len(nameHash{})])
}

func hashFact(a manifest.Attachment) factHash {
	var text [8 + sha256.Size]byte
	binary.BigEndian.PutUint64(text[:8], uint64(a.Size))
	copy(text[8:], a.SHA256[:])
	sum := sha256.Sum256(text[:])
	return factHash(sum[:len(factHash{})])
}

// contradiction is an error about an attachment (or, without a name, about a list of them) that
// only the feed can put right.
func contradiction(name string, cause error) error {
	return &fault.Error{
		Op: "compare attachments", Object: name, Side: fault.SideFeed, Kind: fault.Malformed, Err: cause,
		Hint: "The feed's own documents contradict each other; report the version to the feed's operator.",
	}
}

func unsealed(op, object string) error {
	return &fault.Error{Op: op, Object: object, Kind: fault.Internal, Err: errors.New("the table was not sealed")}
}
