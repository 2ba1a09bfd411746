package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

// Links asks for fresh links to files of a version, by manifest path or attachment name: at most
// MaxNames, each once. Every name is answered exactly once, as an entry or as missing; an answer
// that says less, more or something else is fault.Malformed.
func (c *Client) Links(ctx context.Context, id string, n manifest.Number, names []string) (Links, error) {
	ask, err := c.about(id, "sign links", "versions", strconv.FormatInt(int64(n), 10), "links")
	if err != nil {
		return Links{}, err
	}
	ask.method, ask.version, ask.count = http.MethodPost, n, &c.options.Counts.Links
	asked := make(map[string]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	if len(names) == 0 || len(names) > MaxNames || len(asked) != len(names) {
		return Links{}, ask.fault(fault.Internal, fmt.Errorf("asked for %d names, %d of them different: want 1 to %d, each once", len(names), len(asked), MaxNames))
	}
	ask.body, err = json.Marshal(map[string][]string{"files": names})
	if err != nil {
		return Links{}, ask.fault(fault.Internal, err)
	}
	var out Links
	err = c.do(ctx, ask, func(answer answer) error {
		var err error
		out, err = readLinks(answer, asked)
		return err
	})
	if err != nil {
		return Links{}, err
	}
	return out, nil
}

// readLinks reads {"files": [entry...], "missing": [name...], "expiresAt"}.
func readLinks(answer answer, asked map[string]bool) (Links, error) {
	in := jsonstream.New(answer.body)
	out := Links{Received: answer.received}
	lifetime := lifetime{date: answer.date}
	open := make(map[string]bool, len(asked)) // names not answered yet
	for name := range asked {
		open[name] = true
	}
	settle := func(name string) error {
		switch {
		case open[name]:
			delete(open, name)
			return nil
		case asked[name]:
			return fmt.Errorf("the answer names %s twice", manifest.Quote(name))
		}
		return fmt.Errorf("the answer names %s, which was not asked for", manifest.Quote(name))
	}
	err := in.Object(func(field string) error {
		switch field {
		case "files":
			return readList(in, func() error {
				entry, err := readLink(in, asked, &lifetime)
				if err == nil {
					err = settle(entry.Name)
				}
				out.Entries = append(out.Entries, entry)
				return err
			})
		case "missing":
			return readList(in, func() error {
				name, err := in.String()
				if err == nil {
					err = settle(name)
				}
				out.Missing = append(out.Missing, name)
				return err
			})
		case "expiresAt":
			expires, err := optionalText(in)
			lifetime.add(expires)
			return err
		}
		return nil
	})
	if err == nil {
		err = in.End()
	}
	if err == nil && len(open) > 0 {
		for name := range open {
			err = fmt.Errorf("the answer says nothing of %d of the %d names asked for, such as %s", len(open), len(asked), manifest.Quote(name))
		}
	}
	out.Lifetime = lifetime.shortest
	return out, err
}

// readLink reads one entry. Its name is whichever of path and file was asked for.
func readLink(in *jsonstream.Reader, asked map[string]bool, lifetime *lifetime) (Entry, error) {
	raw, err := manifest.ReadEntry(in)
	if err != nil {
		return Entry{}, err
	}
	lifetime.add(raw.ExpiresAt)
	name := raw.Name()
	if !asked[name] && asked[raw.File] {
		name = raw.File
	}
	switch {
	case raw.Size < 0:
		err = fmt.Errorf("entry %s has no sizeBytes", manifest.Quote(name))
	case raw.SHA256.IsZero():
		err = fmt.Errorf("entry %s has no sha256", manifest.Quote(name))
	case raw.URL == "":
		err = fmt.Errorf("entry %s has no url", manifest.Quote(name))
	}
	return newEntry(raw, "", name), err
}
