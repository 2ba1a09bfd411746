package open

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"feedmirror/internal/bucket/azurestore"
	"feedmirror/internal/bucket/gcsstore"
	"feedmirror/internal/bucket/s3store"
)

// folder returns the path of a file URL: file:///dir, file:dir, file:./dir or file://./dir.
func folder(address *url.URL, s *settings) string {
	path := address.Path
	switch host := address.Host; {
	case address.Opaque != "":
		opaque, err := url.PathUnescape(address.Opaque)
		if err != nil {
			s.bad = append(s.bad, errors.New("the path cannot be read"))
		}
		path = opaque
	case host == "." || host == "..":
		path = host + path
	case host != "" && host != "localhost":
		s.bad = append(s.bad, errors.New("a folder of another host cannot be used; write three slashes: file:///dir"))
	}
	if path == "" {
		s.bad = append(s.bad, errors.New("no folder is named"))
	}
	return path
}

func prefix(address *url.URL) string { return strings.Trim(address.Path, "/") }

// named reports a URL without bucket.
func (s *settings) named() {
	if s.address.Host == "" {
		s.bad = append(s.bad, fmt.Errorf("the URL names no bucket: want %s://NAME/PREFIX", s.address.Scheme))
	}
	if s.address.Port() != "" {
		s.bad = append(s.bad, errors.New("a port belongs into endpoint="))
	}
}

func s3Options(address *url.URL, s *settings) s3store.Options {
	s.named()
	options := s3store.Options{
		Bucket: address.Hostname(), Prefix: prefix(address),
		Endpoint: s.text("endpoint"), Region: s.text("region"), PathStyle: s.flag("path_style"),
		StorageClass: s.text("storage_class"), KMSKey: s.text("sse_kms_key"), Tags: s.text("tags"), ACL: s.text("acl"),
		ObjectLockMode: s.text("object_lock_mode"), ObjectLockDays: int(s.number("object_lock_days")),
		ConditionalDelete: s.flag("conditional_delete"), MaxSinglePut: s.number("max_single_put"),
	}
	if pays := s.flag("requester_pays"); pays != nil {
		options.RequesterPays = *pays
	}
	if conditional := s.flag("conditional_writes"); conditional != nil {
		options.NoConditionalWrites = !*conditional
	}
	return options
}

func gcsOptions(address *url.URL, s *settings) gcsstore.Options {
	s.named()
	return gcsstore.Options{
		Bucket: address.Hostname(), Prefix: prefix(address), Endpoint: s.text("endpoint"),
		UserProject: s.text("user_project"), KMSKey: s.text("kms_key"), StorageClass: s.text("storage_class"),
	}
}

func azureOptions(address *url.URL, s *settings) azurestore.Options {
	s.named()
	return azurestore.Options{
		Container: address.Hostname(), Prefix: prefix(address), Endpoint: s.text("endpoint"),
		Account: s.text("account"), Domain: s.text("domain"),
		AccessTier: s.text("tier"), EncryptionScope: s.text("encryption_scope"),
	}
}
