package bucket

import (
	"context"
	"io"
	"iter"
)

// OlderVersion is a version of an object that a store keeps behind the current one, or after its
// removal.
type OlderVersion struct {
	ID string // in the store's words
	Info
}

// Versioned is what a store implements beside Store when it can keep older versions of objects. A
// repair looks there first. It only reads.
type Versioned interface {
	// Older yields the versions of key that are not current, newest first; none where the bucket
	// keeps none. Removals are not among them.
	Older(ctx context.Context, key string) iter.Seq2[OlderVersion, error]
	// OpenOlder returns the bytes of one of them.
	OpenOlder(ctx context.Context, key, id string) (io.ReadCloser, Info, error)
}

// VersionsOf returns the older versions that a store keeps, or nil when it cannot keep any. It sees
// through the layers of WithCounts, WithLook and WithRetry. A body that breaks is not resumed.
func VersionsOf(store Store) Versioned {
	switch s := store.(type) {
	case Versioned:
		return s
	case *counted:
		if inner := VersionsOf(s.Store); inner != nil {
			return countedVersions{inner, s.counts}
		}
	case *looking:
		return VersionsOf(s.Store)
	case *retrying:
		if inner := VersionsOf(s.Store); inner != nil {
			return retriedVersions{inner, s.policy}
		}
	}
	return nil
}

type countedVersions struct {
	Versioned
	counts *Counts
}

func (c countedVersions) Older(ctx context.Context, key string) iter.Seq2[OlderVersion, error] {
	return func(yield func(OlderVersion, error) bool) {
		c.counts.List.Add(1)
		c.Versioned.Older(ctx, key)(yield)
	}
}

func (c countedVersions) OpenOlder(ctx context.Context, key, id string) (io.ReadCloser, Info, error) {
	c.counts.Read.Add(1)
	return c.Versioned.OpenOlder(ctx, key, id)
}

type retriedVersions struct {
	Versioned
	policy Policy
}

// Older gathers the versions of one key, which are few, so that a listing that broke can begin anew.
func (r retriedVersions) Older(ctx context.Context, key string) iter.Seq2[OlderVersion, error] {
	return func(yield func(OlderVersion, error) bool) {
		var list []OlderVersion
		err := r.policy.Do(ctx, Retryable, func(int) error {
			list = list[:0]
			for version, err := range r.Versioned.Older(ctx, key) {
				if err != nil {
					return err
				}
				list = append(list, version)
			}
			return nil
		})
		if err != nil {
			yield(OlderVersion{}, err)
			return
		}
		for _, version := range list {
			if !yield(version, nil) {
				return
			}
		}
	}
}

func (r retriedVersions) OpenOlder(ctx context.Context, key, id string) (io.ReadCloser, Info, error) {
	var body io.ReadCloser
	var info Info
	err := r.policy.Do(ctx, Retryable, func(int) error {
		var err error
		body, info, err = r.Versioned.OpenOlder(ctx, key, id)
		return err
	})
	return body, info, err
}
