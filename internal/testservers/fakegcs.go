package testservers

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"google.golang.org/api/option"
)

// GCS is a Google Cloud Storage server that runs, in this process.
type GCS struct {
	Endpoint string // http://127.0.0.1:port/storage/v1/, for option.WithEndpoint; needs no credentials
	Host     string // 127.0.0.1:port, for STORAGE_EMULATOR_HOST

	server  *fakestorage.Server
	buckets *atomic.Int64 // made so far, for their names
}

// Client returns a client of the vendor's SDK; the caller closes it.
func (g GCS) Client(ctx context.Context) (*storage.Client, error) {
	client, err := storage.NewClient(ctx, option.WithEndpoint(g.Endpoint), option.WithoutAuthentication(), storage.WithJSONReads())
	if err != nil {
		return nil, fmt.Errorf("make gcs client: %w", err)
	}
	return client, nil
}

// NewBucket makes an empty bucket and returns its name. It goes with the server.
func (g GCS) NewBucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%04d", g.buckets.Add(1))
	g.server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: name})
	return name
}

// FakeGCS returns a fake-gcs-server in this process that stores in memory. The first call in a
// test binary starts it.
func (s *Servers) FakeGCS(t testing.TB) GCS {
	t.Helper()
	return s.gcs.get(t, s.startFakeGCS)
}

func (s *Servers) startFakeGCS() (GCS, error) {
	ports, err := freePorts(1)
	if err != nil {
		return GCS{}, fmt.Errorf("start fake-gcs-server: %w", err)
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		Scheme:      "http",
		Host:        "127.0.0.1",
		Port:        uint16(ports[0]),
		ExternalURL: "http://" + address(ports[0]),
		PublicHost:  address(ports[0]),
	})
	if err != nil {
		return GCS{}, fmt.Errorf("start fake-gcs-server: %w", err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closers = append(s.closers, server.Stop)
	return GCS{
		Endpoint: server.URL() + "/storage/v1/",
		Host:     strings.TrimPrefix(server.URL(), "http://"),
		server:   server,
		buckets:  &atomic.Int64{},
	}, nil
}
