package feedsim

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cursorPrefix is full of characters that a client must escape.
const cursorPrefix = "p+/=&%20"

func (f *Feed) cursor(position int64) string {
	text := strconv.FormatInt(position, 10)
	if f.options.Assume.NumericCursor {
		return text
	}
	return cursorPrefix + base64.StdEncoding.EncodeToString([]byte(text))
}

// position reads a cursor back. ok is false for one that this feed did not make.
func (f *Feed) position(cursor string) (position int64, ok bool) {
	if !f.options.Assume.NumericCursor {
		encoded, made := strings.CutPrefix(cursor, cursorPrefix)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if !made || err != nil {
			return 0, false
		}
		cursor = string(decoded)
	}
	position, err := strconv.ParseInt(cursor, 10, 64)
	return position, err == nil
}

func invalid(message string) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_request", message}
}

// page makes a list's answer with nextCursor, which is 0 for the last page.
func (f *Feed) page(key string, items []object, next int64) object {
	o := object{{key, listOf(items)}}
	if next != 0 {
		return append(o, member{"nextCursor", f.cursor(next)})
	}
	return o.appendPresent("nextCursor", f.options.Assume.LastCursor, nil, "")
}

// listDatasets answers the list of datasets. A cursor is the index of the next dataset.
func (f *Feed) listDatasets(query url.Values) (answer, *refusal) {
	var since time.Time
	if text := query.Get("updatedSince"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return answer{}, invalid("updatedSince is not an RFC 3339 time.")
		}
	}
	start := int64(0)
	if text := query.Get("cursor"); text != "" {
		var ok bool
		if start, ok = f.position(text); !ok || start < 0 {
			return answer{}, invalid("The cursor is not one of ours.")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	items, next := []object{}, int64(0)
	for i := start; i < int64(len(f.order)); i++ {
		dataset := f.datasets[f.order[i]]
		hidden := dataset.removed || dataset.unsubscribed && f.options.Assume.UnsubscribedUnlisted
		if hidden || !since.IsZero() && dataset.updatedAt().Before(since) {
			continue
		}
		if len(items) == f.options.PageSize {
			next = i
			break
		}
		items = append(items, dataset.item(f.options.Assume.CurrentInList))
	}
	return jsonAnswer(f.page("datasets", items, next), f.listChange), nil
}

// item describes a dataset. The feed is locked.
func (d *Dataset) item(presence Presence) object {
	o := object{{d.feed.options.Assume.DatasetIDKey, d.spec.ID}, {"name", d.spec.Name}}
	if d.spec.Place != "" {
		o = append(o, member{"place", object{{"id", d.spec.Place}}})
	} else {
		o = o.appendPresent("place", d.feed.options.Assume.NoPlace, nil, nil)
	}
	current := d.current()
	if current == nil {
		return o.appendPresent("current", presence, nil, nil)
	}
	return o.appendPresent("current", presence, object{
		{"version", current.number},
		{"schemaVersion", current.schema.number.String()},
		{"publishedAt", stamp(current.publishedAt)},
	}, nil)
}

func (f *Feed) showDataset(dataset *Dataset) (answer, *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return jsonAnswer(dataset.item(PresenceDefault), nil), nil
}

// listVersions answers the chain. A cursor is the number of the last version shown.
func (f *Feed) listVersions(dataset *Dataset, query url.Values) (answer, *refusal) {
	ascending := query.Get("order") == "asc"
	wanted := func(int64) bool { return true }
	if text := query.Get("after"); text != "" {
		after, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return answer{}, invalid("after is not a number.")
		}
		wanted = func(number int64) bool { return number > after }
	}
	passed := func(int64) bool { return false }
	if text := query.Get("cursor"); text != "" {
		last, ok := f.position(text)
		if !ok {
			return answer{}, invalid("The cursor is not one of ours.")
		}
		passed = func(number int64) bool { return number == last || (number < last) == ascending }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := slices.DeleteFunc(dataset.listed(), func(v *version) bool { return !wanted(v.number) || passed(v.number) })
	if !ascending {
		slices.Reverse(shown)
	}
	next := int64(0)
	if len(shown) > f.options.PageSize {
		shown = shown[:f.options.PageSize]
		next = shown[len(shown)-1].number
	}
	items := make([]object, len(shown))
	for i, v := range shown {
		items[i] = v.object()
	}
	return jsonAnswer(f.page("versions", items, next), nil), nil
}

// listed returns the versions that the list shows, oldest first. The feed is locked.
func (d *Dataset) listed() []*version {
	var shown []*version
	for _, v := range d.versions {
		expired := !v.withdrawn && d.availability(v) != nil && v != d.current()
		if v.withdrawn && !d.feed.options.Assume.ListWithdrawn || expired && d.feed.options.Assume.ListOmitsExpired {
			continue
		}
		shown = append(shown, v)
	}
	return shown
}

// showSchema answers the schema of the current version, or of the version asked for.
func (f *Feed) showSchema(dataset *Dataset, number string) (answer, *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := dataset.current()
	if number != "" {
		wanted, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return answer{}, invalid("version is not a number.")
		}
		v = dataset.find(wanted)
	}
	if v == nil {
		return answer{}, errUnknownVersion
	}
	return jsonAnswer(f.schemaObject(dataset.spec.ID, v.schema), nil), nil
}

func (f *Feed) listSchemas(dataset *Dataset) (answer, *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var schemas []object
	for _, v := range dataset.versions {
		if v.schema.firstVersion == v.number {
			schemas = append(schemas, f.schemaObject(dataset.spec.ID, v.schema))
		}
	}
	return jsonAnswer(f.page("schemas", schemas, 0), nil), nil
}
