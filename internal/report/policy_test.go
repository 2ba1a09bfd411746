package report_test

import (
	"strings"
	"testing"

	"feedmirror/internal/report"
)

// TestRightsOfRoles: a pass may not delete data; what deletes says so apart.
func TestRightsOfRoles(t *testing.T) {
	for address, want := range map[string]string{
		"s3://b/feeds/main?region=x": "s3:DeleteObject on arn:aws:s3:::b/feeds/main/*",
		"s3://b?region=x":            "s3:DeleteObject on arn:aws:s3:::b/*",
		"azblob://c/p?account=a":     "blobs/delete",
		"gs://b/p":                   "",
		"file:///srv":                "",
	} {
		roles, err := report.MoreRights(address)
		if err != nil || (want == "") != (len(roles) == 0) {
			t.Errorf("%s: %+v, %v", address, roles, err)
			continue
		}
		if want != "" && !strings.Contains(roles[0].Rights, want) {
			t.Errorf("%s: %q does not name %q", address, roles[0].Rights, want)
		}
		least, err := report.LeastPolicy(address)
		if err != nil || strings.Contains(least, "s3:DeleteObject") && !strings.Contains(least, "_mirror/doctor/*") {
			t.Errorf("%s: %s, %v", address, least, err)
		}
	}
}
