package testservers_test

import (
	"crypto/md5"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// azureContainer is a container of the test's own.
type azureContainer struct{ *container.Client }

// put stores body if the conditions hold and sum, if not nil, is its MD5. It returns the new tag
// and the HTTP status.
func (c azureContainer) put(t *testing.T, key, body string, conditions blob.ModifiedAccessConditions, sum []byte) (azcore.ETag, int) {
	t.Helper()
	var validation blob.TransferValidationType
	if sum != nil {
		validation = blob.TransferValidationTypeMD5(sum)
	}
	answer, err := c.NewBlockBlobClient(key).Upload(t.Context(), streaming.NopCloser(strings.NewReader(body)), &blockblob.UploadOptions{
		AccessConditions:        &blob.AccessConditions{ModifiedAccessConditions: &conditions},
		TransactionalValidation: validation,
	})
	if err != nil {
		return "", azureStatus(t, err)
	}
	return *answer.ETag, http.StatusOK
}

// get returns the blob's bytes; nothing when there is none.
func (c azureContainer) get(t *testing.T, key string) string {
	t.Helper()
	answer, err := c.NewBlobClient(key).DownloadStream(t.Context(), nil)
	if err != nil {
		if azureStatus(t, err) != http.StatusNotFound {
			t.Errorf("get %s: %v", key, err)
		}
		return ""
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// azureStatus is the HTTP status behind an error of the Azure SDK.
func azureStatus(t *testing.T, err error) int {
	t.Helper()
	response, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		t.Errorf("no answer: %v", err)
		return 0
	}
	return response.StatusCode
}

// TestAzurite proves what doc.go claims of azurite.
func TestAzurite(t *testing.T) {
	server := servers.Azurite(t)
	client, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	box := azureContainer{client.NewContainerClient(server.NewContainer(t))}
	t.Run("create", box.create)
	t.Run("swap", box.swap)
	t.Run("delete", box.conditionalDelete)
	t.Run("md5", box.wrongMD5)
}

func (c azureContainer) create(t *testing.T) {
	anyTag := azcore.ETagAny
	condition := blob.ModifiedAccessConditions{IfNoneMatch: &anyTag}
	winner := race(t, func(writer int) int {
		_, status := c.put(t, "create", racerBody(writer), condition, nil)
		return status
	})
	if got := c.get(t, "create"); got != racerBody(winner) {
		t.Errorf("holds %.10q..., want the winner's bytes", got)
	}
	if _, status := c.put(t, "create", "late", condition, nil); status != http.StatusConflict {
		t.Errorf("create over a blob: status %d, want 409", status)
	}
}

func (c azureContainer) swap(t *testing.T) {
	tag, _ := c.put(t, "swap", "the old bytes", blob.ModifiedAccessConditions{}, nil)
	condition := blob.ModifiedAccessConditions{IfMatch: &tag}
	winner := race(t, func(writer int) int {
		_, status := c.put(t, "swap", racerBody(writer), condition, nil)
		return status
	})
	if got := c.get(t, "swap"); got != racerBody(winner) {
		t.Errorf("holds %.10q..., want the winner's bytes", got)
	}
	for _, key := range []string{"swap", "nothing"} {
		if _, status := c.put(t, key, "late", condition, nil); status != http.StatusPreconditionFailed {
			t.Errorf("swap of %s with a stale tag: status %d, want 412", key, status)
		}
	}
}

func (c azureContainer) conditionalDelete(t *testing.T) {
	stale, _ := c.put(t, "delete", "first", blob.ModifiedAccessConditions{}, nil)
	c.put(t, "delete", "second", blob.ModifiedAccessConditions{}, nil)
	_, err := c.NewBlobClient("delete").Delete(t.Context(), &blob.DeleteOptions{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &stale},
	}})
	if status := azureStatus(t, err); status != http.StatusPreconditionFailed {
		t.Errorf("delete with a stale tag: status %d, want 412", status)
	}
	if got := c.get(t, "delete"); got != "second" {
		t.Errorf("holds %q after a refused delete", got)
	}
}

func (c azureContainer) wrongMD5(t *testing.T) {
	const body = "the bytes that came"
	wrong, right := md5.Sum([]byte("other")), md5.Sum([]byte(body))
	if _, status := c.put(t, "md5", body, blob.ModifiedAccessConditions{}, wrong[:]); status != http.StatusBadRequest {
		t.Errorf("wrong MD5: status %d, want 400", status)
	}
	if got := c.get(t, "md5"); got != "" {
		t.Errorf("wrong bytes stored: %q", got)
	}
	c.put(t, "md5", body, blob.ModifiedAccessConditions{}, nil)
	properties, err := c.NewBlobClient("md5").GetProperties(t.Context(), nil)
	if err != nil || string(properties.ContentMD5) != string(right[:]) {
		t.Errorf("told MD5 %x (%v), want %x", properties.ContentMD5, err, right)
	}
}
