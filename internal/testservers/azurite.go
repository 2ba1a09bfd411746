package testservers

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

const (
	// azuriteAccount and azuriteKey are the ones that every azurite has; its manual prints them.
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Azure is an Azure Blob server that runs.
type Azure struct {
	Endpoint string // http://127.0.0.1:port/account, as the SDK's service URL
	Account  string
	Key      string // base64, as Azure hands it out

	containers *atomic.Int64 // made so far, for their names
}

func newAzure(port int) Azure {
	return Azure{
		Endpoint:   "http://" + address(port) + "/" + azuriteAccount,
		Account:    azuriteAccount,
		Key:        azuriteKey,
		containers: &atomic.Int64{},
	}
}

// Client returns a client of the vendor's SDK that sends each request once.
func (a Azure) Client() (*service.Client, error) {
	credential, err := service.NewSharedKeyCredential(a.Account, a.Key)
	if err != nil {
		return nil, fmt.Errorf("make azure credential: %w", err)
	}
	client, err := service.NewClientWithSharedKeyCredential(a.Endpoint, credential, &service.ClientOptions{
		ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}},
	})
	if err != nil {
		return nil, fmt.Errorf("make azure client: %w", err)
	}
	return client, nil
}

// NewContainer makes an empty container and returns its name. It goes with the server.
func (a Azure) NewContainer(t testing.TB) string {
	t.Helper()
	client, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("container-%04d", a.containers.Add(1))
	if _, err := client.CreateContainer(t.Context(), name, &container.CreateOptions{}); err != nil {
		t.Fatalf("make container on azurite: %v", err)
	}
	return name
}

func (a Azure) ready(ctx context.Context) error {
	client, err := a.Client()
	if err != nil {
		return err
	}
	if _, err := client.GetProperties(ctx, nil); err != nil {
		return fmt.Errorf("ask for properties: %w", err)
	}
	return nil
}

// Azurite returns an azurite that stores in a folder. The first call in a test binary starts it.
func (s *Servers) Azurite(t testing.TB) Azure {
	t.Helper()
	return s.azurite.get(t, s.startAzurite)
}

func (s *Servers) startAzurite() (Azure, error) {
	ports, err := s.start(plan{
		name:  "azurite",
		tool:  "azurite-blob",
		ports: 1,
		arguments: func(dir string, ports []int) ([]string, error) {
			data, err := makeDir(dir, "data")
			return []string{
				"--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(ports[0]),
				"--location", data,
				// The SDK speaks newer versions of the protocol than azurite has heard of.
				"--skipApiVersionCheck",
				"--disableTelemetry",
			}, err
		},
		ready: func(ctx context.Context, ports []int) error { return newAzure(ports[0]).ready(ctx) },
	})
	if err != nil {
		return Azure{}, err
	}
	return newAzure(ports[0]), nil
}
