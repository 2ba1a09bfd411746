package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

// maxBad bounds the unusable items a walk keeps: beyond it the list as a whole is garbage.
const maxBad = 1000

// Datasets walks the list of datasets, all of them or, when since is not zero, those with a
// release at or after since. Items with an unusable id or version are put into Listing.Bad and
// the walk goes on. A list that changes while it is walked can name a dataset twice. An error of
// visit ends the walk and comes back as it is.
func (c *Client) Datasets(ctx context.Context, since time.Time, visit func(Dataset) error) (Listing, error) {
	var listing Listing
	query := url.Values{}
	if !since.IsZero() {
		query.Set("updatedSince", since.UTC().Format(time.RFC3339))
	}
	ask := call{op: "list datasets", method: http.MethodGet, query: query, limit: c.options.Limits.Page, count: &c.options.Counts.Feed}
	seen := cursors{limit: c.options.Limits.Pages}
	for first := true; ; first = false {
		var got page[datasetItem]
		var date time.Time
		err := c.do(ctx, ask, func(answer answer) error {
			var err error
			got, err = readPage(jsonstream.New(answer.body), []string{"datasets", "items", "data"}, readDataset)
			date = answer.date
			return err
		})
		if err != nil {
			return listing, err
		}
		if first {
			listing.Date = date
		}
		if err := listing.take(ask, got.items, visit); err != nil {
			return listing, err
		}
		if got.next == "" {
			return listing, nil
		}
		if err := seen.add(got.next); err != nil {
			return listing, ask.malformed(err)
		}
		query.Set("cursor", got.next)
	}
}

// take adds a page's items and visits the usable ones.
func (l *Listing) take(ask call, items []datasetItem, visit func(Dataset) error) error {
	for _, item := range items {
		if item.problem != nil {
			if len(l.Bad) == maxBad {
				return ask.malformed(fmt.Errorf("more than %d items are unusable; the last: %w", maxBad, item.problem))
			}
			bad := ask.fault(fault.Malformed, item.problem)
			bad.Object = strconv.Quote(clip(item.ID, 128))
			bad.Hint = "This dataset cannot be mirrored under such a name or number, the others are. Report it to Ploti."
			if manifest.CheckDataset(item.ID) == nil {
				bad.Dataset = item.ID
			}
			l.Bad = append(l.Bad, bad)
			continue
		}
		l.Items++
		if item.PublishedAt.After(l.Greatest) {
			l.Greatest = item.PublishedAt
		}
		if err := visit(item.Dataset); err != nil {
			return err
		}
	}
	return nil
}

// Dataset reads one dataset by its id.
func (c *Client) Dataset(ctx context.Context, id string) (Dataset, error) {
	ask, err := c.about(id, "read dataset")
	if err != nil {
		return Dataset{}, err
	}
	var out datasetItem
	err = c.do(ctx, ask, func(answer answer) error {
		in := jsonstream.New(answer.body)
		var err error
		if out, err = readDataset(in); err != nil {
			return err
		}
		if err := in.End(); err != nil {
			return err
		}
		if out.problem == nil && out.ID != id {
			return fmt.Errorf("the answer is about dataset %s", out.ID)
		}
		return out.problem
	})
	if err != nil {
		return Dataset{}, err
	}
	return out.Dataset, nil
}

// about starts a call that concerns one dataset. The id is checked, since it becomes a part of
// the address.
func (c *Client) about(id, op string, more ...string) (call, error) {
	ask := call{
		op: op, method: http.MethodGet, path: append([]string{id}, more...), dataset: id,
		limit: c.options.Limits.Page, count: &c.options.Counts.Feed,
	}
	if err := manifest.CheckDataset(id); err != nil {
		ask.dataset = strconv.Quote(clip(id, 128))
		return call{}, ask.malformed(err)
	}
	return ask, nil
}

// datasetItem is an item of the list with what makes it unusable, if anything does.
type datasetItem struct {
	Dataset
	problem error
}

func (i *datasetItem) doubt(err error) {
	if i.problem == nil {
		i.problem = err
	}
}

// readDataset reads {id | datasetId, current: {version, publishedAt} | null, publishedAt}. Its
// error means that the text is unusable; what is wrong with the item alone stands in the item.
func readDataset(in *jsonstream.Reader) (datasetItem, error) {
	var out datasetItem
	ids := map[string]string{}
	var published [2]time.Time // of the current version, of the item
	if skipped, err := skipUnless(in, jsonstream.Object); skipped {
		out.doubt(errors.New("the item is not an object"))
		return out, err
	}
	err := in.Object(func(name string) error {
		var err error
		switch name {
		case "id", "datasetId":
			ids[name], err = optionalText(in)
		case "current":
			published[0], err = readCurrent(in, &out)
		case "publishedAt":
			published[1], err = optionalTime(in)
		}
		return err
	})
	out.ID = ids["datasetId"]
	if out.ID == "" {
		out.ID = ids["id"]
	}
	if other := ids["id"]; other != "" && other != out.ID {
		out.doubt(errors.New("the item has two ids"))
	}
	if err := manifest.CheckDataset(out.ID); err != nil {
		out.doubt(err)
	}
	out.PublishedAt = published[0]
	if out.PublishedAt.IsZero() {
		out.PublishedAt = published[1]
	}
	return out, err
}

func readCurrent(in *jsonstream.Reader, out *datasetItem) (published time.Time, err error) {
	kind, err := in.Peek()
	switch {
	case err != nil:
		return published, err
	case kind == jsonstream.Null:
		return published, in.Null()
	case kind != jsonstream.Object:
		out.doubt(errors.New("current is not an object"))
		return published, in.Skip()
	}
	err = in.Object(func(name string) error {
		switch name {
		case "version":
			number, problem, err := optionalNumber(in)
			if problem != nil {
				out.doubt(fmt.Errorf("current version: %w", problem))
			}
			out.Current = number
			return err
		case "publishedAt":
			var err error
			published, err = optionalTime(in)
			return err
		}
		return nil
	})
	if err == nil && out.Current == 0 {
		out.doubt(errors.New("current names no version"))
	}
	return published, err
}
