package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"feedmirror/internal/feed/feedsim"
)

// change is one way in which a manifest is bad.
type change struct {
	name string
	edit func(manifest map[string]any, first map[string]any)
}

// manifests: what a manifest must not say.
func manifests(ctx context.Context, s *stage) error {
	set := func(field string, value any) func(map[string]any, map[string]any) {
		return func(_, first map[string]any) { first[field] = value }
	}
	add := func(path func(string) string) func(map[string]any, map[string]any) {
		return func(manifest, first map[string]any) {
			twin := map[string]any{}
			for field, value := range first {
				twin[field] = value
			}
			twin["path"] = path(fmt.Sprint(first["path"]))
			list, _ := manifest["files"].([]any)
			manifest["files"] = append(list, twin)
		}
	}
	for _, one := range []change{
		{"another hash than the version says", set("sha256", strings.Repeat("ab", 32))},
		{"another version's number", func(manifest, _ map[string]any) { manifest["version"] = 77 }},
		{"a hash that is not 64 hex digits", set("sha256", "abc")},
		{"a negative size", set("sizeBytes", -1)},
		{"an absurd size", set("sizeBytes", 1e18)},
		{"the same path twice", add(func(path string) string { return path })},
		{"names that differ only in case", add(func(path string) string { return strings.ToUpper(path[:10]) + path[10:] })},
		{"a path with ..", set("path", "snapshot/../../x.parquet")},
		{"a path with a leading /", set("path", "/etc/passwd")},
		{"a path with a backslash", set("path", `snapshot\part.parquet`)},
		{"a path with a control character", set("path", "snapshot/a\x07b.parquet")},
	} {
		if err := s.bad(ctx, "manifest with "+one.name, 1, one.apply); err != nil {
			return err
		}
	}
	return nil
}

// apply releases a version with the bad manifest, and a good version of another dataset beside it.
func (c change) apply(w *badWorld) (func() error, error) {
	if _, err := w.datasets["ds_zoning"].Release(feedsim.ReleaseSpec{Add: 1}); err != nil {
		return nil, err
	}
	d, number, err := w.release()
	if err != nil {
		return nil, err
	}
	var original []byte
	var failure error
	err = d.OverrideManifest(number, func(data []byte) []byte {
		original = append([]byte(nil), data...)
		var changed []byte
		if changed, failure = c.bytes(data); failure != nil {
			return data
		}
		return changed
	})
	if err == nil {
		err = failure
	}
	return func() error { return d.OverrideManifest(number, func([]byte) []byte { return original }) }, err
}

func (c change) bytes(data []byte) ([]byte, error) {
	var manifest map[string]any
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	list, ok := manifest["files"].([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("read manifest: no files in it")
	}
	first, ok := list[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("read manifest: a file that is none")
	}
	c.edit(manifest, first)
	return json.Marshal(manifest)
}
