package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"feedmirror/internal/feed/feedsim"
	"feedmirror/internal/invariant"
	"feedmirror/internal/testservers"
)

const layoutKey = "_mirror/layout.json"

// replica is a copy of a bucket that another tool made.
type replica struct {
	name string
	url  string
	env  []string
	keys func() (map[string]int64, error) // what it holds, with sizes
}

// copies: a bucket that another tool copied is as good as the first.
func copies(ctx context.Context, s *stage) error {
	return withFeed(feedsim.Options{}, func(feed *feedsim.Feed) error {
		datasets, err := three(feed)
		if err != nil {
			return err
		}
		folder := s.dir + "/bucket"
		if _, err := s.sync(ctx, s.environment(feed), 0, "file://"+folder); err != nil {
			return err
		}
		return withVersity(func(server testservers.S3) error {
			there, err := newPlace(ctx, server, "second", "some/prefix/")
			if err != nil {
				return err
			}
			replicas, err := s.replicate(ctx, feed, there, folder)
			if err != nil {
				return err
			}
			return s.useReplicas(ctx, feed, datasets["ds_permits"], there, replicas)
		})
	})
}

// replicate copies a folder to another one, to S3, and from there into a third folder.
func (s *stage) replicate(ctx context.Context, feed *feedsim.Feed, there place, folder string) ([]replica, error) {
	copied, back := s.dir+"/elsewhere/below/prefix", s.dir+"/back"
	if err := s.copyFolder(ctx, folder, copied); err != nil {
		return nil, err
	}
	if err := there.upload(ctx, folder); err != nil {
		return nil, err
	}
	if err := there.download(ctx, back); err != nil {
		return nil, err
	}
	s.note("copied by cp -r; by plain PUTs of the AWS SDK into versitygw, bucket second, prefix some/prefix; from there by plain GETs into a third folder")
	env := s.environment(feed)
	return []replica{
		{"folder", "file://" + copied, env, func() (map[string]int64, error) { return files(copied) }},
		{"versitygw", there.url(there.server.Endpoint), s.environment(feed, credentials(there.server)...), func() (map[string]int64, error) { return there.list(ctx) }},
		{"folder from versitygw", "file://" + back, env, func() (map[string]int64, error) { return files(back) }},
	}, nil
}

func (s *stage) useReplicas(ctx context.Context, feed *feedsim.Feed, d *feedsim.Dataset, there place, replicas []replica) error {
	for _, r := range replicas {
		if err := s.asGoodAsNew(ctx, feed, r); err != nil {
			return err
		}
	}
	if _, err := d.Release(feedsim.ReleaseSpec{Add: 2, Change: 1}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	for _, r := range replicas {
		if err := s.oneMore(ctx, feed, r); err != nil {
			return err
		}
	}
	for _, folder := range []string{"/elsewhere/below/prefix", "/back"} {
		s.invariants(s.dir + folder)
		if err := s.newerFolder(ctx, s.environment(feed), s.dir+folder); err != nil {
			return err
		}
	}
	return s.newerS3(ctx, replicas[1].env, there)
}

func (s *stage) copyFolder(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy folder: %w", err)
	}
	s.command("cp -r " + from + " " + to)
	if out, err := exec.CommandContext(ctx, "cp", "-r", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy folder: %w: %s", err, out)
	}
	return nil
}

// asGoodAsNew audits a copy and wants passes that download nothing.
func (s *stage) asGoodAsNew(ctx context.Context, feed *feedsim.Feed, r replica) error {
	s.note("%s:", r.name)
	if err := s.verify(ctx, r.env, r.url, "bytes"); err != nil {
		return err
	}
	for _, args := range [][]string{nil, {"--full"}} {
		feed.ResetLog()
		e, err := s.sync(ctx, r.env, 0, r.url, args...)
		if err != nil {
			return err
		}
		s.want(e.exit == 0 && len(feed.Completed()) == 0, "next %s pass: exit %d, %d files downloaded", e.report.Pass, e.exit, len(feed.Completed()))
	}
	return nil
}

// oneMore syncs a new release into a copy: each download is a new key, so nothing held was downloaded.
func (s *stage) oneMore(ctx context.Context, feed *feedsim.Feed, r replica) error {
	before, err := r.keys()
	if err != nil {
		return err
	}
	feed.ResetLog()
	e, err := s.sync(ctx, r.env, 0, r.url)
	if err != nil {
		return err
	}
	after, err := r.keys()
	if err != nil {
		return err
	}
	added := 0
	for key := range after {
		if _, held := before[key]; !held && (isData(key) || strings.HasSuffix(key, "/manifest.json")) {
			added++
		}
	}
	count, _ := most(feed.Completed())
	s.want(e.report.Versions.Committed == 1 && count == 1 && len(feed.Completed()) == added, "%s, after one more release: %d version committed, %d files downloaded for %d new keys",
		r.name, e.report.Versions.Committed, len(feed.Completed()), added)
	return s.verify(ctx, r.env, r.url, "bytes")
}

// newer returns the layout document of a mirror that is newer than the program.
func newer(data []byte) ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	number, ok := document["layout"].(float64)
	if !ok {
		return nil, fmt.Errorf("read layout: no number in %s", data)
	}
	document["layout"] = number + 1
	return json.Marshal(document)
}

// newerFolder wants a newer layout refused and nothing written.
func (s *stage) newerFolder(ctx context.Context, env []string, folder string) error {
	path := filepath.Join(folder, filepath.FromSlash(layoutKey))
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	if data, err = newer(data); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	before, err := invariant.Take(invariant.Folder(folder))
	if err != nil {
		return err
	}
	e, err := s.mirror(ctx, env, "sync", "--full", "--bucket", "file://"+folder)
	if err != nil {
		return err
	}
	after, err := invariant.Take(invariant.Folder(folder))
	if err != nil {
		return err
	}
	s.want(e.exit == 2 && maps.Equal(before.Objects, after.Objects), "newer layout in a folder: exit %d, contents unchanged: %s", e.exit, yesNo(maps.Equal(before.Objects, after.Objects)))
	return nil
}

func (s *stage) newerS3(ctx context.Context, env []string, there place) error {
	data, err := there.get(ctx, layoutKey)
	if err != nil {
		return err
	}
	if data, err = newer(data); err != nil {
		return err
	}
	key := there.prefix + layoutKey
	if _, err := there.server.Client().PutObject(ctx, &s3.PutObjectInput{Bucket: &there.bucket, Key: &key, Body: bytes.NewReader(data)}); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	before, err := there.tags(ctx)
	if err != nil {
		return err
	}
	e, err := s.mirror(ctx, env, "sync", "--full", "--bucket", there.url(there.server.Endpoint))
	if err != nil {
		return err
	}
	after, err := there.tags(ctx)
	if err != nil {
		return err
	}
	s.want(e.exit == 2 && maps.Equal(before, after), "newer layout in versitygw: exit %d, keys and ETags unchanged: %s", e.exit, yesNo(maps.Equal(before, after)))
	return nil
}
