package report

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"feedmirror/manifest"
)

// Role is what a command needs beside the least rights of a pass.
type Role struct {
	Command string `json:"command"`
	Rights  string `json:"rights"`
}

// MoreRights returns what commands that delete or look behind the present need beside LeastPolicy;
// none where that has it all. Give them to an identity of their own.
func MoreRights(rawURL string) ([]Role, error) {
	address, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("read bucket URL: %w", err)
	}
	switch address.Scheme {
	case "s3":
		whole := "arn:aws:s3:::" + address.Host
		below := whole + "/" + strings.TrimLeft(strings.Trim(address.Path, "/")+"/", "/") + "*"
		return []Role{
			{"mirror prune, mirror verify --repair", "s3:DeleteObject on " + below},
			{"mirror verify --repair, of a bucket with versions", "s3:ListBucketVersions on " + whole + " and s3:GetObjectVersion on " + below},
		}, nil
	case "azblob":
		return []Role{{"mirror prune", "the data action Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete"}}, nil
	}
	return nil, nil
}

// LeastPolicy returns the least rights that mirror sync, verify and doctor need on the bucket that
// a URL names, in the words of its service.
func LeastPolicy(rawURL string) (string, error) {
	address, err := url.Parse(rawURL)
	if err != nil {
		return "", fmt.Errorf("read bucket URL: %w", err)
	}
	prefix := strings.Trim(address.Path, "/")
	switch address.Scheme {
	case "s3":
		return s3Policy(address.Host, prefix, address.Query())
	case "gs":
		return gcsPolicy(address.Host, prefix), nil
	case "azblob":
		return azurePolicy(address.Host), nil
	default:
		return "Read, write and search permission on the folder, for the user that runs the mirror. Nothing else.", nil
	}
}

type statement struct {
	Sid       string         `json:"Sid"`
	Effect    string         `json:"Effect"`
	Action    []string       `json:"Action"`
	Resource  string         `json:"Resource"`
	Condition map[string]any `json:"Condition,omitempty"`
}

func s3Policy(bucket, prefix string, settings url.Values) (string, error) {
	below := prefix
	if below != "" {
		below += "/"
	}
	write := []string{"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}
	for setting, action := range map[string]string{"tags": "s3:PutObjectTagging", "acl": "s3:PutObjectAcl", "object_lock_mode": "s3:PutObjectRetention"} {
		if settings.Get(setting) != "" {
			write = append(write, action)
		}
	}
	list := statement{Sid: "List", Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: "arn:aws:s3:::" + bucket}
	if below != "" {
		list.Condition = map[string]any{"StringLike": map[string]string{"s3:prefix": below + "*"}}
	}
	statements := []statement{
		list,
		{Sid: "ReadAndWrite", Effect: "Allow", Action: write, Resource: "arn:aws:s3:::" + bucket + "/" + below + "*"},
		{Sid: "DoctorCleansUp", Effect: "Allow", Action: []string{"s3:DeleteObject"}, Resource: "arn:aws:s3:::" + bucket + "/" + below + manifest.DoctorPrefix + "*"},
	}
	if key := settings.Get("sse_kms_key"); key != "" {
		statements = append(statements, statement{Sid: "Encrypt", Effect: "Allow", Action: []string{"kms:GenerateDataKey", "kms:Decrypt"}, Resource: key})
	}
	text, err := json.MarshalIndent(map[string]any{"Version": "2012-10-17", "Statement": statements}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write policy: %w", err)
	}
	return string(text), nil
}

func gcsPolicy(bucket, prefix string) string {
	return fmt.Sprintf(`A custom role on gs://%s with storage.objects.create, storage.objects.get, storage.objects.list
and storage.objects.delete, bound with the condition
  resource.name.startsWith("projects/_/buckets/%s/objects/%s")
(Cloud Storage counts the replacing of a pointer as a delete. Keep data safe from it with a retention policy or object versions.)`, bucket, bucket, prefix)
}

func azurePolicy(container string) string {
	return fmt.Sprintf(`A custom role on container %s with the data actions
  Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read
  Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write
  Microsoft.Storage/storageAccounts/blobServices/containers/blobs/add/action
and blobs/delete where doctor should clean up behind itself.`, container)
}
