package feedsim

import (
	"io"
	"strings"
	"time"
)

const timeFormat = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) string { return t.UTC().Format(timeFormat) }

func stampOrNil(t *time.Time) any {
	if t == nil {
		return nil
	}
	return stamp(*t)
}

// appendPresent adds a member unless it is to be absent.
func (o object) appendPresent(key string, presence Presence, value, empty any) object {
	switch presence {
	case PresenceAbsent:
		return o
	case PresenceNull:
		value = nil
	case PresenceEmpty:
		value = empty
	}
	return append(o, member{key, value})
}

// object is the version's block of facts.
func (v *version) object() object {
	assume := v.dataset.feed.options.Assume
	o := object{{"datasetId", v.dataset.spec.ID}, {"version", v.number}}
	if v.previous == 0 {
		o = o.appendPresent("previousVersion", assume.FirstPrevious, nil, int64(0))
	} else {
		o = append(o, member{"previousVersion", v.previous})
	}
	var sourceURL any
	if v.sourceURL != nil {
		sourceURL = *v.sourceURL
	}
	return append(o,
		member{"schemaVersion", v.schema.number.String()},
		member{"publishedAt", stamp(v.publishedAt)},
		member{"sourceUrl", sourceURL},
		member{"fetchedAt", stampOrNil(v.fetchedAt)},
		member{"rowCount", v.rowCount},
		member{"counts", v.counts},
		member{"resyncRequired", v.resync},
		member{"recordIdsChanged", v.idsChanged},
	)
}

// inGroup returns the version's files of a kind.
func (v *version) inGroup(k kind) []file {
	var files []file
	for _, f := range v.files {
		if f.kind == k {
			files = append(files, f)
		}
	}
	return files
}

// signing makes the entries of one answer: links that expire together, made by one call.
type signing struct {
	feed    *Feed
	version *version
	expires time.Time
	serial  int64
	entryAt bool // entries carry expiresAt
	twist   func(f file) (linked, hashed file)
}

func (s signing) entry(f file) object {
	linked, hashed := f, f
	if s.twist != nil {
		linked, hashed = s.twist(f)
	}
	assume := s.feed.options.Assume
	var o object
	switch {
	case f.kind == kindAttachment || assume.PartNames == PartInFile:
		o = object{{"file", f.name}}
	case assume.PartNames == PartInPathOnly:
		o = object{{"path", f.name}}
	default:
		o = object{{"file", f.filename}, {"path", f.name}}
	}
	o = append(o,
		member{"filename", f.filename},
		member{"contentType", f.contentType},
		member{"sizeBytes", f.size},
		member{"sha256", s.feed.hex(hashed.sha256)},
		member{"url", s.feed.sign(s.version, linked, s.expires, s.serial)},
	)
	if s.entryAt {
		o = append(o, member{"expiresAt", stamp(s.expires)})
	}
	return o
}

func (f *Feed) hex(digest string) string {
	if f.options.Assume.UpperHex {
		return strings.ToUpper(digest)
	}
	return digest
}

// filesObject is the files member of a version's answer. withChanges is false when retention took the changes.
func (s signing) filesObject(withChanges bool) object {
	assume := s.feed.options.Assume
	o := object{{"expiresAt", stamp(s.expires)}}
	group := func(key string, n int, at func(i int) file) {
		l := list{n: n, at: func(i int) any { return s.entry(at(i)) }}
		if n > 0 {
			o = append(o, member{key, l})
			return
		}
		o = o.appendPresent(key, assume.EmptyFileLists, l, l)
	}
	parts := func(k kind) {
		files := s.version.inGroup(k)
		if k == kindChanges && !withChanges {
			files = nil
		}
		group(string(k), len(files), func(i int) file { return files[i] })
	}
	parts(kindSnapshot)
	parts(kindChanges)
	parts(kindIDMap)
	for _, k := range []kind{kindSchema, kindManifest} {
		entry := s.entry(s.version.inGroup(k)[0])
		if assume.SingleAsList {
			o = append(o, member{string(k), listOf([]object{entry})})
		} else {
			o = append(o, member{string(k), entry})
		}
	}
	if len(s.version.inGroup(kindExtra)) > 0 {
		parts(kindExtra)
	}
	attachments := s.version.attachments
	group(string(kindAttachment), attachments.len(), attachments.at)
	return o
}

// manifestBlob renders manifest.json over the files listed. A small one is held in memory.
func (f *Feed) manifestBlob(v *version, files []file) (blob, error) {
	manifest := f.manifestObject(v, files)
	const small = 1000
	if v.attachments.len() > small {
		return newStreamBlob(func(w io.Writer) error { return writeJSON(w, manifest) })
	}
	data, err := jsonBytes(manifest)
	return newBytesBlob(data), err
}

func (f *Feed) manifestObject(v *version, files []file) object {
	assume := f.options.Assume
	entry := func(file file) object {
		return object{{"path", file.name}, {"sizeBytes", file.size}, {"sha256", f.hex(file.sha256)}}
	}
	attachments := list{n: v.attachments.len(), at: func(i int) any {
		a := v.attachments.at(i)
		return object{
			{"file", a.name}, {"filename", a.filename}, {"contentType", a.contentType},
			{"sizeBytes", a.size}, {"sha256", f.hex(a.sha256)},
		}
	}}
	entries, groups := []object{}, map[kind][]object{}
	for _, file := range files {
		entries = append(entries, entry(file))
		groups[file.kind] = append(groups[file.kind], entry(file))
	}
	var grouped object
	for _, k := range []kind{kindSnapshot, kindChanges, kindIDMap} {
		l := listOf(groups[k])
		if l.n > 0 {
			grouped = append(grouped, member{string(k), l})
		} else {
			grouped = grouped.appendPresent(string(k), assume.ManifestLists, l, l)
		}
	}
	grouped = append(grouped, member{string(kindSchema), groups[kindSchema][0]})
	if extra := groups[kindExtra]; len(extra) > 0 {
		grouped = append(grouped, member{string(kindExtra), listOf(extra)})
	}
	o := object{{"datasetId", v.dataset.spec.ID}, {"version", v.number}, {"schemaVersion", v.schema.number.String()}}
	switch assume.Manifest {
	case ManifestFlat:
		o = append(o, member{"files", listOf(entries)})
	case ManifestGrouped:
		o = append(o, member{"files", grouped})
	default:
		o = append(o, grouped...)
	}
	if attachments.n > 0 {
		return append(o, member{"attachments", attachments})
	}
	return o.appendPresent("attachments", assume.ManifestLists, attachments, attachments)
}
