package storescript

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"
)

// S3Error answers as S3 refuses. A HEAD gets no body, as there.
func S3Error(status int, code string) Action {
	return func(w http.ResponseWriter, r Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("X-Amz-Request-Id", "scripted")
		write(w, r, status, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
			`<Error><Code>`+code+`</Code><Message>as scripted</Message><RequestId>scripted</RequestId></Error>`)
	}
}

// GCSError answers as the JSON API of Cloud Storage refuses.
func GCSError(status int, reason string) Action {
	return func(w http.ResponseWriter, r Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		write(w, r, status, fmt.Sprintf(`{"error":{"code":%d,"message":"as scripted: %s","errors":[{"domain":"global","reason":%q}]}}`, status, reason, reason))
	}
}

// AzureError answers as Blob Storage refuses.
func AzureError(status int, code string) Action {
	return func(w http.ResponseWriter, r Request, _ http.Handler) {
		w.Header().Set("X-Ms-Error-Code", code)
		w.Header().Set("Content-Type", "application/xml")
		write(w, r, status, `<?xml version="1.0" encoding="utf-8"?><Error><Code>`+code+`</Code><Message>as scripted</Message></Error>`)
	}
}

// Page answers with a page for people, as proxies and captive portals do.
func Page(status int) Action {
	return func(w http.ResponseWriter, r Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		write(w, r, status, "<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>We'll be right back</h1><br></body></html>")
	}
}

// Text answers 200 with a body.
func Text(body string) Action {
	return func(w http.ResponseWriter, r Request, _ http.Handler) { write(w, r, http.StatusOK, body) }
}

func write(w http.ResponseWriter, r Request, status int, body string) {
	if status == http.StatusOK {
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // the client may be gone
	}
}

// HangUp ends the connection before a header is sent.
func HangUp() Action {
	return func(http.ResponseWriter, Request, http.Handler) { panic(http.ErrAbortHandler) }
}

// After lets the server do what it was asked, drops its answer, and then does what follows.
func After(then Action) Action {
	return func(w http.ResponseWriter, r Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r.Request)
		then(w, r, next)
	}
}

// Changed passes the request on and lets change see the answer before it is sent.
func Changed(change func(r Request, header http.Header, body []byte) []byte) Action {
	return func(w http.ResponseWriter, r Request, next http.Handler) {
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r.Request)
		header := recorder.Header()
		body := change(r, header, recorder.Body.Bytes())
		for name, values := range header {
			w.Header()[name] = values
		}
		if r.Method != http.MethodHead {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(body) // the client may be gone
	}
}

// OneWriteASecond matches a write of a key that was written less than a second ago, by the time
// that now tells. It keeps the times by itself.
func OneWriteASecond(now func() time.Time) func(Request) bool {
	last := make(map[string]time.Time)
	return func(r Request) bool {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return false
		}
		at := now()
		if before, written := last[r.Key]; written && at.Sub(before) < time.Second {
			return true
		}
		last[r.Key] = at
		return false
	}
}
