package feed

import (
	"errors"
	"fmt"
	"slices"

	"feedmirror/manifest"
	"feedmirror/manifest/jsonstream"
)

const (
	maxCursor    = 4 << 10 // bytes of a cursor, which goes into a URL
	maxPageItems = 100_000 // items of a page, so that 16 MiB of "{}" stay small in memory
)

// page is one page of a list.
type page[T any] struct {
	items []T
	next  string // cursor of the next page; empty on the last one
}

// readPage reads {"<list>": [item...], "nextCursor": null}, the list under any of names. A list
// of null is empty; a page without a list is no page, since an answer of another kind must not
// pass for an empty list.
func readPage[T any](in *jsonstream.Reader, names []string, item func(*jsonstream.Reader) (T, error)) (page[T], error) {
	var out page[T]
	found := false
	err := in.Object(func(name string) error {
		switch {
		case name == "nextCursor":
			var err error
			out.next, err = readCursor(in)
			return err
		case !slices.Contains(names, name):
			return nil
		case found:
			return errors.New("the page holds its list twice")
		}
		found = true
		return readList(in, func() error {
			if len(out.items) == maxPageItems {
				return fmt.Errorf("the page holds more than %d items", maxPageItems)
			}
			one, err := item(in)
			out.items = append(out.items, one)
			return err
		})
	})
	if err == nil {
		err = in.End()
	}
	if err == nil && !found {
		err = fmt.Errorf("the page has no %q", names[0])
	}
	return out, err
}

// readList reads an array, or null for an empty one.
func readList(in *jsonstream.Reader, item func() error) error {
	kind, err := in.Peek()
	if err != nil {
		return err
	}
	if kind == jsonstream.Null {
		return in.Null()
	}
	return in.Array(item)
}

func readCursor(in *jsonstream.Reader) (string, error) {
	kind, err := in.Peek()
	if err != nil {
		return "", err
	}
	var cursor string
	switch kind {
	case jsonstream.Null:
		return "", in.Null()
	case jsonstream.Number:
		cursor, err = in.Number()
	case jsonstream.String:
		cursor, err = in.String()
	default:
		return "", errors.New("nextCursor is neither a string nor null")
	}
	if err == nil && len(cursor) > maxCursor {
		err = fmt.Errorf("nextCursor is longer than %d bytes", maxCursor)
	}
	return cursor, err
}

// cursors refuses a walk that goes in a circle or never ends.
type cursors struct {
	seen  map[manifest.SHA256]struct{} // hashes, since a cursor can be long
	limit int
}

// add takes the cursor of the next page.
func (c *cursors) add(cursor string) error {
	if _, again := c.seen[manifest.SumBytes([]byte(cursor))]; again {
		return errors.New("the list repeats a cursor, so its pages go in a circle")
	}
	if len(c.seen)+1 >= c.limit {
		return fmt.Errorf("the list has more than %d pages", c.limit)
	}
	if c.seen == nil {
		c.seen = map[manifest.SHA256]struct{}{}
	}
	c.seen[manifest.SumBytes([]byte(cursor))] = struct{}{}
	return nil
}
