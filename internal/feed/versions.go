package feed

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

// Versions walks a dataset's released versions above after, in ascending order; after zero means
// all. A version of another dataset, an unusable one, or one out of order is fault.Malformed. An
// error of visit ends the walk and comes back as it is.
func (c *Client) Versions(ctx context.Context, id string, after manifest.Number, visit func(manifest.Version) error) error {
	ask, err := c.about(id, "list versions", "versions")
	if err != nil {
		return err
	}
	ask.query = url.Values{"order": {"asc"}}
	if after > 0 {
		ask.query.Set("after", strconv.FormatInt(int64(after), 10))
	}
	last := after
	seen := cursors{limit: c.options.Limits.Pages}
	for {
		var got page[manifest.Version]
		err := c.do(ctx, ask, func(answer answer) error {
			var err error
			got, err = readPage(jsonstream.New(answer.body), []string{"versions"}, manifest.ReadVersion)
			if err == nil {
				err = checkChain(got.items, id, last)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, version := range got.items {
			if err := visit(version); err != nil {
				return err
			}
			last = version.Number
		}
		if got.next == "" {
			return nil
		}
		if err := seen.add(got.next); err != nil {
			return ask.malformed(err)
		}
		ask.query.Set("cursor", got.next)
	}
}

// checkChain checks a page before any of it is visited.
func checkChain(versions []manifest.Version, id string, last manifest.Number) error {
	for _, version := range versions {
		if version.Dataset != id {
			return fmt.Errorf("the list holds version %d of another dataset, %s", version.Number, manifest.Quote(version.Dataset))
		}
		if version.Number <= last {
			return fmt.Errorf("the list is not in ascending order: version %d stands after %d", version.Number, last)
		}
		last = version.Number
	}
	return nil
}
