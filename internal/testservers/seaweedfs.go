package testservers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// SeaweedFS returns a SeaweedFS with its S3 gateway. The first call in a test binary starts it.
func (s *Servers) SeaweedFS(t testing.TB) S3 {
	t.Helper()
	return s.weed.get(t, s.startSeaweedFS)
}

func (s *Servers) startSeaweedFS() (S3, error) {
	const name = "seaweedfs"
	ports, err := s.start(plan{
		name:  name,
		tool:  "weed",
		ports: 8,
		// One volume for a new bucket instead of seven, so that tests can make many buckets.
		env:       []string{"WEED_MASTER_VOLUME_GROWTH_COPY_1=1"},
		arguments: weedArguments,
		litter:    weedSockets,
		ready:     func(ctx context.Context, ports []int) error { return newS3(name, ports[0]).ready(ctx) },
	})
	if err != nil {
		return S3{}, err
	}
	return newS3(name, ports[0]), nil
}

// weedArguments names every port, folder and socket: the defaults (8080, 8888, 9333, /tmp) are
// shared with whatever else runs on the machine. It also turns off the statistics that the
// program would send to its makers.
func weedArguments(dir string, ports []int) ([]string, error) {
	data, err := makeDir(dir, "data")
	if err != nil {
		return nil, err
	}
	identities, err := weedIdentities(dir, newS3("seaweedfs", ports[0]))
	if err != nil {
		return nil, err
	}
	port := func(i int) string { return strconv.Itoa(ports[i]) }
	return []string{
		"-logtostderr=true", "server",
		"-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=" + data,
		"-s3", "-s3.config=" + identities, "-s3.iam=false",
		"-s3.port=" + port(0), "-s3.port.grpc=" + port(1),
		"-s3.port.iceberg=0", "-s3.port.lance=0",
		"-s3.localSocket=" + filepath.Join(dir, "s3.sock"),
		"-master.port=" + port(2), "-master.port.grpc=" + port(3),
		"-master.telemetry=false", "-master.volumeSizeLimitMB=1024",
		"-volume.port=" + port(4), "-volume.port.grpc=" + port(5),
		"-volume.max=1000", "-volume.minFreeSpace=256MiB",
		"-filer.port=" + port(6), "-filer.port.grpc=" + port(7),
		"-filer.localSocket=" + filepath.Join(dir, "filer.sock"),
	}, nil
}

// weedSockets are the sockets that the program leaves in /tmp whatever it is told; 1, 3, 5 and 7
// are the gRPC ports of weedArguments.
func weedSockets(ports []int) []string {
	var paths []string
	for role, port := range map[string]int{"s3": ports[1], "master": ports[3], "volume": ports[5], "filer": ports[7]} {
		paths = append(paths, fmt.Sprintf("/tmp/seaweedfs-%s-grpc-%d.sock", role, port))
	}
	return paths
}

// weedIdentities writes the file that names who may sign requests: without it the gateway
// accepts any signature.
func weedIdentities(dir string, server S3) (string, error) {
	type credential struct {
		AccessKey string `json:"accessKey"`
		SecretKey string `json:"secretKey"`
	}
	type identity struct {
		Name        string       `json:"name"`
		Credentials []credential `json:"credentials"`
		Actions     []string     `json:"actions"`
	}
	document, err := json.Marshal(map[string][]identity{"identities": {{
		Name:        "test",
		Credentials: []credential{{server.AccessKey, server.SecretKey}},
		Actions:     []string{"Admin", "Read", "Write", "List", "Tagging"},
	}}})
	if err != nil {
		return "", fmt.Errorf("encode identities: %w", err)
	}
	path := filepath.Join(dir, "identities.json")
	if err := os.WriteFile(path, document, 0o600); err != nil {
		return "", fmt.Errorf("write identities: %w", err)
	}
	return path, nil
}
