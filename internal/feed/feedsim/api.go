package feedsim

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// refusal is an error answer of the API.
type refusal struct {
	status  int
	code    string
	message string
}

var (
	errUnknownDataset = &refusal{http.StatusNotFound, "not_found", "There is no such dataset."}
	errUnknownVersion = &refusal{http.StatusNotFound, "not_found", "That version was never released."}
	errUnknownPath    = &refusal{http.StatusNotFound, "not_found", "There is nothing at this path."}
	errNotSubscribed  = &refusal{http.StatusConflict, "not_subscribed", "None of your subscriptions delivers this dataset."}
	errMethod         = &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "This path does not know that method."}
)

// route is what an API path means.
type route struct {
	dataset, resource, number, action string
	known                             bool
}

const apiRoot = "/v1/feeds/datasets"

// parseRoute reads /v1/feeds/datasets[/{dataset}[/{resource}[/{number}[/{action}]]]].
func parseRoute(u *url.URL) route {
	rest, ok := strings.CutPrefix(u.EscapedPath(), apiRoot)
	if !ok || rest != "" && rest[0] != '/' {
		return route{}
	}
	segments := make([]string, 4)
	parts := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	if len(parts) > len(segments) {
		return route{}
	}
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return route{}
		}
		segments[i] = decoded
	}
	return route{dataset: segments[0], resource: segments[1], number: segments[2], action: segments[3], known: true}
}

func (f *Feed) apiHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		where := parseRoute(r.URL)
		number, _ := strconv.ParseInt(where.number, 10, 64) // not a number: the route answers 404
		request := Request{
			Side: SideAPI, Method: r.Method, Path: r.URL.Path, Dataset: where.dataset, Version: number, Resource: where.resource,
		}
		if where.action != "" {
			request.Resource = where.action
		}
		f.exchange(w, r, request, func(x *exchange) answer { return f.answerAPI(x, where) })
	})
}

// answerAPI checks the key and answers a route.
func (f *Feed) answerAPI(x *exchange, where route) answer {
	given, bearer := strings.CutPrefix(x.http.Header.Get("Authorization"), "Bearer ")
	if !bearer || subtle.ConstantTimeCompare([]byte(given), []byte(f.options.Key)) != 1 {
		return f.refuse(&refusal{f.options.Assume.BadKeyStatus, "unauthorized", "The API key is missing or not valid."})
	}
	if busy, ok := f.busy(); ok {
		return busy
	}
	value, refused := f.resolve(x, where)
	if refused != nil {
		return f.refuse(refused)
	}
	return value
}

// resolve finds the answer to a route.
func (f *Feed) resolve(x *exchange, where route) (answer, *refusal) {
	wanted := http.MethodGet
	if where.resource == "versions" && where.action == "links" {
		wanted = http.MethodPost
	}
	switch {
	case !where.known:
		return answer{}, errUnknownPath
	case x.http.Method != wanted:
		return answer{}, errMethod
	case where.dataset == "":
		return f.listDatasets(x.http.URL.Query())
	}
	dataset, refused := f.reachable(where.dataset)
	if refused != nil {
		return answer{}, refused
	}
	if where.resource == "versions" && where.number != "" {
		return f.resolveVersion(x, dataset, where)
	}
	if where.number != "" {
		return answer{}, errUnknownPath
	}
	query := x.http.URL.Query()
	switch where.resource {
	case "":
		return f.showDataset(dataset)
	case "schema":
		return f.showSchema(dataset, query.Get("version"))
	case "schemas":
		return f.listSchemas(dataset)
	case "versions":
		return f.listVersions(dataset, query)
	}
	return answer{}, errUnknownPath
}

// resolveVersion finds the answer to a route below one version.
func (f *Feed) resolveVersion(x *exchange, dataset *Dataset, where route) (answer, *refusal) {
	switch where.action {
	case "":
		return f.showVersion(x, dataset, where.number)
	case "links":
		return f.signLinks(x, dataset, where.number)
	}
	return answer{}, errUnknownPath
}

// reachable returns a dataset that the API knows.
func (f *Feed) reachable(id string) (*Dataset, *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dataset := f.datasets[id]
	switch {
	case dataset == nil || dataset.removed:
		return nil, errUnknownDataset
	case dataset.unsubscribed && f.options.Assume.UnsubscribedEverywhere:
		return nil, errNotSubscribed
	}
	return dataset, nil
}

// delivered returns a version whose links may be signed.
func (f *Feed) delivered(dataset *Dataset, text string) (v *version, withChanges bool, refused *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dataset.unsubscribed {
		return nil, false, errNotSubscribed
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, false, errUnknownVersion
	}
	if v = dataset.find(number); v == nil {
		return nil, false, errUnknownVersion
	}
	if refused = dataset.availability(v); refused != nil {
		return nil, false, refused
	}
	return v, dataset.hasChanges(v), nil
}

func (f *Feed) showVersion(x *exchange, dataset *Dataset, number string) (answer, *refusal) {
	v, withChanges, refused := f.delivered(dataset, number)
	if refused != nil {
		return answer{}, refused
	}
	s := f.newSigning(x, v)
	f.mu.Lock()
	change := v.change
	f.mu.Unlock()
	o := append(v.object(), member{"files", s.filesObject(withChanges)})
	if v.attachments.len() <= 1000 {
		return jsonAnswer(o, change), nil
	}
	// Chunked: the length of a long listing is not known before it was written.
	return answer{
		status: http.StatusOK, header: jsonHeader(), size: -1,
		body: func(w io.Writer) error { return writeJSON(w, o) },
	}, nil
}

// newSigning starts the links of one answer. All of them carry one serial number.
func (f *Feed) newSigning(x *exchange, v *version) signing {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serial++
	s := signing{
		feed: f, version: v, serial: f.serial,
		expires: f.clock.Now().Add(f.options.LinkLifetime).Truncate(time.Millisecond),
	}
	if x.fault.twist != nil {
		s.twist = func(file file) (file1, file2 file) { return x.fault.twist(v, file) }
	}
	return s
}

// maxNames is how many names one call for fresh links may hold.
const maxNames = 200

func (f *Feed) signLinks(x *exchange, dataset *Dataset, number string) (answer, *refusal) {
	v, withChanges, refused := f.delivered(dataset, number)
	if refused != nil {
		return answer{}, refused
	}
	var asked struct {
		Files []string `json:"files"`
	}
	body, err := io.ReadAll(io.LimitReader(x.http.Body, 4<<20))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		return answer{}, &refusal{http.StatusBadRequest, "invalid_request", "The body is not the JSON it should be."}
	}
	if len(asked.Files) > maxNames {
		return answer{}, &refusal{http.StatusBadRequest, "invalid_request", fmt.Sprintf("At most %d files at a time.", maxNames)}
	}
	assume := f.options.Assume
	s := f.newSigning(x, v)
	s.entryAt = assume.LinksExpiry != ExpiryOnTop
	entries, missing := []object{}, []string{}
	for _, name := range asked.Files {
		file, ok := f.signable(v, name, withChanges)
		if !ok {
			missing = append(missing, name)
			continue
		}
		entries = append(entries, s.entry(file))
	}
	f.countSigned(x, v, asked.Files)
	if assume.LinksReversed {
		for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
			entries[i], entries[j] = entries[j], entries[i]
		}
	}
	o := object{}
	if assume.LinksExpiry != ExpiryOnEntries {
		o = append(o, member{"expiresAt", stamp(s.expires)})
	}
	o = append(o, member{"files", listOf(entries)})
	if len(missing) > 0 {
		o = append(o, member{"missing", missing})
	} else {
		o = o.appendPresent("missing", assume.MissingInLinks, missing, missing)
	}
	return jsonAnswer(o, nil), nil
}

// signable finds the file of that name, unless retention took it or /links does not know it.
func (f *Feed) signable(v *version, name string, withChanges bool) (file, bool) {
	if name == manifestName && !f.options.Assume.ManifestSignable {
		return file{}, false
	}
	found, ok := v.file(name)
	if ok && found.kind == kindChanges && !withChanges {
		return file{}, false
	}
	return found, ok
}

// file returns the version's file of that path or attachment of that name.
func (v *version) file(name string) (file, bool) {
	for _, f := range v.files {
		if f.name == name {
			return f, true
		}
	}
	return v.attachments.find(name)
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// jsonAnswer is an answer of 200 that is held in memory. change may be nil.
func jsonAnswer(v any, change func([]byte) []byte) answer {
	data, err := jsonBytes(v)
	if err != nil {
		return bytesAnswer(http.StatusInternalServerError, jsonHeader(), []byte(err.Error()))
	}
	if change != nil {
		data = change(bytes.Clone(data))
	}
	return bytesAnswer(http.StatusOK, jsonHeader(), data)
}

func bytesAnswer(status int, header http.Header, data []byte) answer {
	return answer{status: status, header: header, size: int64(len(data)), body: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}
