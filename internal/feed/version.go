package feed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

// Version reads a version with its files. Entries are visited as they come, in the answer's
// order and before anything is known of what follows, and are kept nowhere: a version can list
// a million attachments. When the connection breaks on the way, the answer is asked for again and
// the visits go on where they stopped, provided that it names the same files; else the call fails
// as fault.Transient and nothing that was visited counts. The manifest's entry is not visited.
//
// An answer about another dataset or version is fault.Malformed, found out at its end at the
// latest: whoever acts on a visited entry acts before that. An error of visit ends the call and
// comes back as it is.
func (c *Client) Version(ctx context.Context, id string, n manifest.Number, visit func(Entry) error) (Answer, error) {
	ask, err := c.about(id, "read version", "versions", strconv.FormatInt(int64(n), 10))
	if err != nil {
		return Answer{}, err
	}
	ask.version, ask.limit = n, c.options.Limits.Version
	entries := newResumed(visit)
	var out Answer
	var began time.Time
	err = c.do(ctx, ask, func(answer answer) error {
		// Links visited in an earlier try are as old as that try, so its time holds for all.
		if began.IsZero() || entries.visited == 0 {
			began = answer.received
		}
		entries.rewind()
		var err error
		if out, err = readAnswer(answer, entries.next); err != nil {
			return err
		}
		if out.Version.Dataset != id || out.Version.Number != n {
			return fmt.Errorf("the answer is about version %d of %s", out.Version.Number, manifest.Quote(out.Version.Dataset))
		}
		return entries.end()
	})
	var changed changedError
	if errors.As(err, &changed) {
		out := ask.fault(fault.Transient, changed)
		out.Hint = "The next run reads the version anew."
		return Answer{}, out
	}
	if err != nil {
		return Answer{}, err
	}
	out.Received = began
	return out, nil
}

// readAnswer reads a version's own fields and, before, between or after them, its files.
func readAnswer(answer answer, visit func(Entry) error) (Answer, error) {
	in := jsonstream.New(answer.body)
	files := filesReader{in: in, lifetime: lifetime{date: answer.date}, visit: visit}
	var fields manifest.VersionFields
	err := in.Object(func(name string) error {
		if name == "files" {
			return files.read()
		}
		_, err := fields.Read(in, name)
		return err
	})
	if err == nil {
		err = in.End()
	}
	var version manifest.Version
	if err == nil {
		version, err = fields.Version()
	}
	switch {
	case err != nil:
		return Answer{}, err
	case files.manifests != 1:
		return Answer{}, fmt.Errorf("the answer names %d manifests, want one", files.manifests)
	}
	return Answer{Version: version, Manifest: files.manifest, Lifetime: files.lifetime.shortest, Received: answer.received}, nil
}

// filesReader reads the files of a version's answer: {"expiresAt", "snapshot": [entry...],
// "changes", "idMap", "schema": entry, "manifest": entry, "attachments"}. Each group may be a
// list, one entry, null or absent. Groups of other names are left alone: what a version consists
// of is its manifest's word.
type filesReader struct {
	in        *jsonstream.Reader
	lifetime  lifetime
	visit     func(Entry) error
	seen      bool
	manifest  Entry
	manifests int
}

func (f *filesReader) read() error {
	if f.seen {
		return errors.New("the answer holds files twice")
	}
	f.seen = true
	return f.in.Object(func(name string) error {
		switch name {
		case "expiresAt":
			expires, err := optionalText(f.in)
			f.lifetime.add(expires)
			return err
		case "snapshot":
			return f.files(manifest.KindSnapshot)
		case "changes":
			return f.files(manifest.KindChanges)
		case "idMap", "id_map":
			return f.files(manifest.KindIDMap)
		case "schema":
			return f.files(manifest.KindSchema)
		case "attachments":
			return f.each(name, attachmentEntry, f.visit)
		case "manifest":
			return f.each(name, manifestEntry, f.takeManifest)
		}
		return nil
	})
}

func (f *filesReader) files(kind manifest.Kind) error {
	return f.each(string(kind), func(raw manifest.Entry) (Entry, error) { return fileEntry(raw, kind) }, f.visit)
}

func (f *filesReader) takeManifest(entry Entry) error {
	f.manifest = entry
	f.manifests++
	return nil
}

// manifestEntry returns the manifest's own entry. Nobody asks /links for it, so that its link
// must be there and its name need not.
func manifestEntry(raw manifest.Entry) (Entry, error) {
	if raw.Name() == "" {
		raw.Path = "manifest.json"
	}
	if raw.URL == "" {
		return Entry{}, errors.New("no url")
	}
	return fileEntry(raw, manifest.KindExtra)
}

// each reads a group's entries, whether it is a list or one entry on its own.
func (f *filesReader) each(group string, decode func(manifest.Entry) (Entry, error), take func(Entry) error) error {
	one := func() error {
		raw, err := manifest.ReadEntry(f.in)
		if err != nil {
			return fmt.Errorf("an entry of %s: %w", group, err)
		}
		f.lifetime.add(raw.ExpiresAt)
		entry, err := decode(raw)
		if err != nil {
			return fmt.Errorf("an entry of %s: %w", group, err)
		}
		return take(entry)
	}
	kind, err := f.in.Peek()
	if err != nil {
		return err
	}
	if kind == jsonstream.Object {
		return one()
	}
	return readList(f.in, one)
}

// changedError says that a version's answer named other files when it was read again.
type changedError struct{}

func (changedError) Error() string {
	return "the connection broke, and the answer names other files than before"
}

// resumed visits every entry once over several tries. Of those visited it keeps a hash only.
type resumed struct {
	visit   func(Entry) error
	visited int64     // over all tries
	done    hash.Hash // over the facts of what was visited
	place   int64     // in this try
	check   hash.Hash // over this try's entries that were visited before
}

func newResumed(visit func(Entry) error) *resumed {
	return &resumed{visit: visit, done: sha256.New(), check: sha256.New()}
}

func (r *resumed) rewind() {
	r.place = 0
	r.check.Reset()
}

// next takes one entry and visits it unless an earlier try did.
func (r *resumed) next(entry Entry) error {
	r.place++
	if r.place <= r.visited {
		addFacts(r.check, entry)
		if r.place == r.visited && !bytes.Equal(r.check.Sum(nil), r.done.Sum(nil)) {
			return visitError{changedError{}}
		}
		return nil
	}
	addFacts(r.done, entry)
	r.visited++
	if err := r.visit(entry); err != nil {
		return visitError{err}
	}
	return nil
}

// end checks that this try named no fewer entries than were visited.
func (r *resumed) end() error {
	if r.place < r.visited {
		return visitError{changedError{}}
	}
	return nil
}

// addFacts hashes what an entry says of its file. The link is left out: it differs each time.
func addFacts(sum hash.Hash, entry Entry) {
	text := fmt.Appendf(nil, "%q %q %q %q %d", entry.Kind, entry.Name, entry.Filename, entry.ContentType, entry.Size)
	_, _ = sum.Write(append(text, entry.SHA256[:]...)) // a hash never fails
}
