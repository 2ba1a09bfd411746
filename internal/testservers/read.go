package testservers

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Read returns the bytes of an object by the vendor's SDK, and whether there is one.
func (s S3) Read(ctx context.Context, bucket, key string) (data []byte, found bool, err error) {
	answer, err := s.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	var absent *types.NoSuchKey
	switch {
	case errors.As(err, &absent):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get %s on %s: %w", key, s.Name, err)
	}
	data, err = io.ReadAll(answer.Body)
	return data, true, errors.Join(err, answer.Body.Close())
}
