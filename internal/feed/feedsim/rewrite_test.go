package feedsim_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"feedmirror/internal/feed/feedsim"
)

func TestAnAnswerCanBeRewrittenOrStreamed(t *testing.T) {
	feed, _ := newArchive(t, feedsim.Options{})
	feed.Script(feedsim.Rule{Side: feedsim.SideAPI}, feedsim.Rewrite(func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"datasets"`), []byte(`"somethingElse"`))
	}))
	feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: 2}, feedsim.Stream(func(w io.Writer) error {
		_, err := io.WriteString(w, `{"streamed": true}`)
		return err
	}))
	feed.Script(feedsim.Rule{Side: feedsim.SideAPI, Nth: 3}, feedsim.Insert("{", func(w io.Writer) error {
		_, err := io.WriteString(w, `"front": 1,`)
		return err
	}))
	for _, want := range []string{`"somethingElse"`, `"streamed"`, `{"front": 1,"datasets"`, `{"datasets"`} {
		response, body, err := get(t, feed.URL()+"/v1/feeds/datasets", http.Header{"Authorization": {"Bearer " + feed.Key()}})
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", response, err)
		}
		if !strings.Contains(string(body), want) {
			t.Errorf("answered %.80s, want %s in it", body, want)
		}
	}
}
