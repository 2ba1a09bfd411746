package storescript

import (
	"net/http"
	"net/url"
	"strings"
)

// NameS3 names requests to a bucket that is addressed in the path: get, head, put, delete, list,
// begin, part, complete, abort, uploads.
func NameS3(r *http.Request) (op, key string) {
	query := r.URL.Query()
	_, key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case query.Has("list-type"):
		return "list", query.Get("prefix")
	case query.Has("uploads") && r.Method == http.MethodGet:
		return "uploads", query.Get("prefix")
	case query.Has("uploads"):
		return "begin", key
	case query.Has("partNumber"):
		return "part", key
	case query.Has("uploadId") && r.Method == http.MethodDelete:
		return "abort", key
	case query.Has("uploadId"):
		return "complete", key
	}
	return strings.ToLower(r.Method), key
}

// NameGCS names requests to the JSON API: get, stat, list, put (in one request), begin and chunk
// (of a session), delete.
func NameGCS(r *http.Request) (op, key string) {
	query := r.URL.Query()
	_, object, isObject := strings.Cut(r.URL.EscapedPath(), "/o/")
	if name, err := url.PathUnescape(object); isObject && err == nil {
		key = name
	}
	upload := strings.HasPrefix(r.URL.Path, "/upload/") || strings.HasPrefix(r.URL.Path, "/resumable/")
	switch {
	case upload && query.Has("upload_id"):
		return "chunk", query.Get("name")
	case upload && query.Get("uploadType") == "resumable":
		return "begin", query.Get("name")
	case upload:
		return "put", query.Get("name")
	case r.Method == http.MethodDelete:
		return "delete", key
	case !isObject:
		return "list", query.Get("prefix")
	case query.Get("alt") == "media":
		return "get", key
	}
	return "stat", key
}

// NameAzure names requests to Blob Storage that name the account in the path: get, head, put, block, commit,
// list, delete.
func NameAzure(r *http.Request) (op, key string) {
	query := r.URL.Query()
	if parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3); len(parts) == 3 {
		key = parts[2]
	}
	switch query.Get("comp") {
	case "list":
		return "list", query.Get("prefix")
	case "block":
		return "block", key
	case "blocklist":
		return "commit", key
	}
	return strings.ToLower(r.Method), key
}
