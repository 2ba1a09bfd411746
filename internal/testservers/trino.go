package testservers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// trinoReadyLimit bounds the start of a Java program that loads hundreds of libraries.
const trinoReadyLimit = 5 * time.Minute

// Trino is a Trino server of one node that runs. Its catalogs are called delta and hive, and share a
// metastore of files; hive leads to delta for tables of that kind, as Athena's one catalog does. They read local files (file://) and one S3 server (s3://).
type Trino struct {
	Endpoint string // http://127.0.0.1:port
	Catalog  string // of tables that a statement names without one; empty: none
}

// Trino returns a Trino that reads from an S3 server. The first call in a test binary starts it: later
// calls must name the same server. `make test-readers` installs it.
func (s *Servers) Trino(t testing.TB, store S3) Trino {
	t.Helper()
	return s.trino.get(t, func() (Trino, error) { return s.startTrino(store) })
}

func (s *Servers) startTrino(store S3) (Trino, error) {
	ports, err := s.start(plan{
		name: "trino", tool: "trino", ports: 1, limit: trinoReadyLimit,
		arguments: func(dir string, ports []int) ([]string, error) { return trinoArguments(dir, ports[0], store) },
		ready:     func(ctx context.Context, ports []int) error { return newTrino(ports[0]).ready(ctx) },
	})
	if err != nil {
		return Trino{}, err
	}
	return newTrino(ports[0]), nil
}

func newTrino(port int) Trino { return Trino{Endpoint: "http://127.0.0.1:" + strconv.Itoa(port)} }

// ready writes a row with each catalog and reads it again. A node answers questions about itself before
// its scheduler knows that it can work.
func (t Trino) ready(ctx context.Context) error {
	for _, statement := range []string{
		"CREATE SCHEMA IF NOT EXISTS hive.ready",
		"CREATE TABLE IF NOT EXISTS hive.ready.in_hive AS SELECT 1 AS one",
		"CREATE TABLE IF NOT EXISTS delta.ready.in_delta AS SELECT 1 AS one",
		"SELECT h.one FROM hive.ready.in_hive h JOIN delta.ready.in_delta d ON d.one = h.one",
	} {
		if _, err := t.Query(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// trinoArguments writes the settings of a node that is coordinator and worker in one.
func trinoArguments(dir string, port int, store S3) ([]string, error) {
	metastore, err := makeDir(dir, "metastore")
	if err != nil {
		return nil, err
	}
	catalogs, err := makeDir(dir, "catalogs")
	if err != nil {
		return nil, err
	}
	address := newTrino(port).Endpoint
	files := map[string][]string{
		filepath.Join(dir, "config.properties"): {
			"coordinator=true", "node-scheduler.include-coordinator=true", "discovery.uri=" + address,
			"http-server.http.port=" + strconv.Itoa(port), "node.bind-ip=127.0.0.1", "node.internal-address=127.0.0.1",
			"node.environment=test", "node.id=one", "catalog.config-dir=" + catalogs,
		},
		filepath.Join(catalogs, "delta.properties"): append(trinoStorage(metastore, store),
			"connector.name=delta_lake", "delta.register-table-procedure.enabled=true"),
		filepath.Join(catalogs, "hive.properties"): append(trinoStorage(metastore, store),
			"connector.name=hive", "hive.partition-projection-enabled=true", "hive.timestamp-precision=MICROSECONDS", "hive.ignore-absent-partitions=true",
			"hive.delta-lake-catalog-name=delta"),
	}
	for path, lines := range files {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, fmt.Errorf("write settings of trino: %w", err)
		}
	}
	return []string{"-Dconfig=" + filepath.Join(dir, "config.properties")}, nil
}

func trinoStorage(metastore string, store S3) []string {
	return []string{
		"hive.metastore=file", "hive.metastore.catalog.dir=file://" + metastore, "fs.hadoop.enabled=true",
		"fs.native-s3.enabled=true", "s3.endpoint=" + store.Endpoint, "s3.region=" + store.Region, "s3.path-style-access=true",
		"s3.aws-access-key=" + store.AccessKey, "s3.aws-secret-key=" + store.SecretKey,
	}
}
