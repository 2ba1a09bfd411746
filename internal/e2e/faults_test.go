package e2e_test

import (
	"strings"
	"testing"

	"feedmirror/internal/bucket/buckettest/storescript"
	"feedmirror/internal/evidence"
	"feedmirror/internal/feed/feedsim"
)

// storeFault is a fault of a store that a pass of the program meets.
type storeFault struct {
	name  string
	rules []storescript.Rule
	exit  int
	says  string
}

// TestAPassMeetsFaultsOfCloudStores puts a scripted front before a store of each kind: the exit code
// is the one that belongs to the fault, and the next pass ends the work.
func TestAPassMeetsFaultsOfCloudStores(t *testing.T) {
	gcs, azure, after := storescript.GCSError, storescript.AzureError, storescript.After
	met := func(ops, key string, most int, do storescript.Action) []storescript.Rule {
		return []storescript.Rule{{Ops: ops, Key: key, Most: most, Do: do}}
	}
	for _, store := range []struct {
		row    string
		open   func(*testing.T) (place, *storescript.Front)
		faults []storeFault
	}{
		{"gcs-faults-sync", scriptedGCS, []storeFault{
			{"a pointer stored, answered 429", met("put", "current/", 1, after(gcs(429, "rateLimitExceeded"))), 0, ""},
			{"denied for what is missing", met("stat get", "versions/", 0, gcs(403, "forbidden")), 1, "storage.objects"},
			{"a record: an empty answer", met("put", "record.json", 1, storescript.Text("{}")), 0, ""},
			{"lists: a page that names itself", met("list", "", 0, storescript.Text(`{"nextPageToken":"t"}`)), 1, "names itself"},
			{"a part: closed before headers", met("put", "snapshot/", 1, storescript.HangUp()), 0, ""},
			{"everything denied", met("", "", 0, gcs(403, "forbidden")), 5, "storage.objects"},
			{"HTML with 503 for everything", met("", "", 0, storescript.Page(503)), 5, "503"},
		}},
		{"azure-faults-sync", scriptedAzure, []storeFault{
			{"a pointer stored, answered 503", met("put", "current/", 1, after(azure(503, "ServerBusy"))), 0, ""},
			{"denied for what is missing", met("head get", "versions/", 0, azure(403, "AuthorizationPermissionMismatch")), 1, "Contributor"},
			{"a record: HTML with 201", met("put", "record.json", 1, storescript.Page(201)), 0, ""},
			{"a part: closed before headers", met("put", "snapshot/", 1, storescript.HangUp()), 0, ""},
			{"a pointer: 412, always", met("put", "current/", 0, azure(412, "ConditionNotMet")), 1, "ConditionNotMet"},
			{"lists: without a list", met("list", "", 0, storescript.Text("<EnumerationResults></EnumerationResults>")), 1, "no list"},
			{"everything denied", met("", "", 0, azure(403, "AuthenticationFailed")), 5, "Contributor"},
		}},
	} {
		t.Run(store.row, func(t *testing.T) {
			tally := evidence.Count(t, store.row)
			faults := store.faults[:evidence.Size(2, len(store.faults))]
			for _, c := range faults {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					at, front := store.open(t)
					w := newWorld(t, at, feedsim.Options{})
					d := w.dataset(feedsim.DatasetSpec{ID: permits, Character: feedsim.Points, Rows: 6}, feedsim.ReleaseSpec{})
					w.sync(0)
					next := w.release(d, feedsim.ReleaseSpec{Add: 1})
					front.Set(c.rules...)
					report := w.sync(c.exit)
					if front.Met() == 0 {
						t.Error("the fault was not met")
					}
					if text := told(report); !strings.Contains(text, c.says) {
						t.Errorf("nothing says %q: %s", c.says, text)
					}
					front.Set()
					w.sync(0)
					w.published(permits, next)
					tally.Add(1)
				})
			}
		})
	}
}

func told(r report) string {
	var all strings.Builder
	for _, failure := range r.Failures {
		all.WriteString(failure.Message + " " + failure.Hint + "\n")
	}
	return all.String()
}

func scriptedGCS(t *testing.T) (place, *storescript.Front) {
	at, host := gcsPlace(t), "http://"+servers.FakeGCS(t).Host
	front := storescript.NewFront(storescript.Proxy(t, host), storescript.NameGCS)
	at.url = strings.Replace(at.url, host, storescript.Start(t, front), 1)
	return at, front
}

func scriptedAzure(t *testing.T) (place, *storescript.Front) {
	at, endpoint := azurePlace(t), servers.Azurite(t).Endpoint
	server := endpoint[:strings.LastIndex(endpoint, "/")]
	front := storescript.NewFront(storescript.Proxy(t, server), storescript.NameAzure)
	at.url = strings.Replace(at.url, server, storescript.Start(t, front), 1)
	return at, front
}
