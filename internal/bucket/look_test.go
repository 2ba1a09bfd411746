package bucket_test

import (
	"context"
	"iter"
	"testing"

	"feedmirror/internal/bucket"
	"feedmirror/internal/bucket/buckettest"
	"feedmirror/internal/bucket/localstore"
	"feedmirror/internal/fault"
)

// To a single writer a store that ignores conditions keeps all promises when it is looked at first.
func TestALookStandsInForConditions(t *testing.T) {
	buckettest.RunAlone(t, func(t *testing.T) bucket.Store {
		store, err := localstore.New(localstore.Options{Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return bucket.WithLook(&buckettest.IgnoreConditions{Store: store})
	})
}

// A look that fails is no leave to write.
func TestALookThatFailsEndsTheWrite(t *testing.T) {
	store, err := localstore.New(localstore.Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	looking := bucket.WithLook(&buckettest.FailNth{Store: store, Op: buckettest.OpStat, From: 1, To: 4, Err: buckettest.Unavailable()})
	writes := map[string]func() error{
		"create": func() error {
			_, err := bucket.CreateDocument(t.Context(), looking, "k", []byte("1"))
			return err
		},
		"swap": func() error {
			_, err := looking.Swap(t.Context(), "k", bucket.Absent, []byte("1"))
			return err
		},
		"replace": func() error {
			_, err := looking.Replace(t.Context(), "k", "tag", bucket.Content{})
			return err
		},
		"delete": func() error { return looking.Delete(t.Context(), "k", "tag") },
	}
	for name, write := range writes {
		if err := write(); !fault.Is(err, fault.Transient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := store.Stat(t.Context(), "k"); !fault.Is(err, fault.NotFound) {
		t.Errorf("something was written: %v", err)
	}
}

// What a store keeps of older versions is seen through the layer.
func TestALookHidesNoOlderVersions(t *testing.T) {
	if bucket.VersionsOf(bucket.WithLook(keeper{})) == nil {
		t.Error("older versions are hidden")
	}
}

type keeper struct {
	bucket.Store
	bucket.Versioned
}

func (keeper) Older(context.Context, string) iter.Seq2[bucket.OlderVersion, error] { return nil }
