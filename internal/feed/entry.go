package feed

import (
	"time"

	"feedmirror/manifest"
)

// attachmentEntry returns an entry of a version's attachments. Its name is checked, and size
// and sha256 must be there.
func attachmentEntry(raw manifest.Entry) (Entry, error) {
	attachment, err := raw.AsAttachment()
	if err != nil {
		return Entry{}, err
	}
	return newEntry(raw, "", attachment.Name), nil
}

// fileEntry returns an entry of a version's other files, likewise checked.
func fileEntry(raw manifest.Entry, kind manifest.Kind) (Entry, error) {
	file, err := raw.AsFile()
	if err != nil {
		return Entry{}, err
	}
	return newEntry(raw, kind, file.Path), nil
}

func newEntry(raw manifest.Entry, kind manifest.Kind, name string) Entry {
	return Entry{
		Kind: kind, Name: name, Filename: raw.Filename, ContentType: raw.ContentType,
		Size: raw.Size, SHA256: raw.SHA256, URL: raw.URL,
	}
}

// lifetime finds how long the links of an answer live. Times that cannot be read are unknown,
// which the caller can live with: a link that expired early earns a fresh one anyway.
type lifetime struct {
	date     time.Time // the server's clock when it answered
	shortest time.Duration
}

// add takes one expiresAt. Links that were expired when they came live one nanosecond, since
// zero means unknown.
func (l *lifetime) add(expires string) {
	at, err := time.Parse(time.RFC3339, expires)
	if err != nil || l.date.IsZero() {
		return
	}
	left := max(at.Sub(l.date), 1)
	if l.shortest == 0 || left < l.shortest {
		l.shortest = left
	}
}
