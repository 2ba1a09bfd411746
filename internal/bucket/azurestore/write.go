package azurestore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the service's transfer checksum; what is stored is proven by sha256
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// blockSize is the default of Options.PartSize, in bytes.
const blockSize = 8 << 20

// maxBlocks is how many blocks the service takes for one blob.
const maxBlocks = 50_000

// Create implements bucket.Writer.
func (s *Store) Create(ctx context.Context, key string, content bucket.Content) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	verified := bucket.VerifyReader(content.Body, content.Size, content.SHA256)
	if content.Size > int64(s.block) {
		return s.createLarge(ctx, key, name, content, verified, absent())
	}
	data := bytes.NewBuffer(make([]byte, 0, content.Size+bytes.MinRead))
	if _, err := data.ReadFrom(verified); err != nil {
		return bucket.Info{}, fmt.Errorf("create object %s: %w", key, err)
	}
	sum := md5.Sum(data.Bytes()) //nolint:gosec // see the import
	answer, err := s.put(ctx, name, data.Bytes(), sum, content.Class, absent())
	if err != nil {
		return s.createAgain(ctx, key, name, content, data.Bytes(), s.fail(ctx, opCreate, key, err))
	}
	if tagOf(answer.ETag) == bucket.Absent {
		return bucket.Info{}, unproven(opCreate, key)
	}
	return bucket.Info{
		Key: key, Size: content.Size, Tag: tagOf(answer.ETag), Checksum: checksumOf(answer.ContentMD5),
		Modified: valueOf(answer.LastModified, time.Time{}),
	}, nil
}

// Replace implements bucket.Replacer. All sizes go the way of blocks: nothing is visible before the
// list is committed, and that is where the condition stands.
func (s *Store) Replace(ctx context.Context, key string, old bucket.Tag, content bucket.Content) (bucket.Info, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Info{}, err
	}
	if old == bucket.Absent {
		return bucket.Info{}, bucket.Unreplaced(key, errors.New("no tag is named"))
	}
	verified := bucket.VerifyReader(content.Body, content.Size, content.SHA256)
	info, err := s.createLarge(ctx, key, name, content, verified, unchanged(old))
	if fault.Is(err, fault.Exists) {
		return bucket.Info{}, bucket.Unreplaced(key, err)
	}
	return info, err
}

// createAgain decides a Put Blob that met something. Blocks that another attempt staged and never
// committed can count as a blob here, although nothing can be read under the key: then, and only
// then, the bytes go the way of blocks, whose commit discards the strangers.
func (s *Store) createAgain(ctx context.Context, key, name string, content bucket.Content, data []byte, cause error) (bucket.Info, error) {
	if !fault.Is(cause, fault.Exists) {
		return bucket.Info{}, cause
	}
	if _, err := s.Stat(ctx, key); !fault.Is(err, fault.NotFound) {
		return bucket.Info{}, cause
	}
	return s.createLarge(ctx, key, name, content, bucket.VerifyReader(bytes.NewReader(data), content.Size, content.SHA256), absent())
}

// put writes data in one request that announces sum as its MD5.
func (s *Store) put(ctx context.Context, name string, data []byte, sum [md5.Size]byte, class bucket.ContentClass,
	conditions *blob.AccessConditions,
) (blockblob.UploadResponse, error) {
	return s.client.NewBlockBlobClient(name).Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{
		TransactionalValidation: blob.TransferValidationTypeMD5(sum[:]),
		HTTPHeaders:             headers(name, class), Tier: s.tier(class), CPKScopeInfo: s.scope(), AccessConditions: conditions,
	})
}

// createLarge stages the body block by block and commits the list once all of it was verified.
func (s *Store) createLarge(ctx context.Context, key, name string, content bucket.Content, verified *bucket.Verifier,
	conditions *blob.AccessConditions,
) (bucket.Info, error) {
	if content.Size > int64(s.block)*maxBlocks {
		return bucket.Info{}, &fault.Error{
			Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.Unsupported,
			Err: fmt.Errorf("%d bytes, at most %d fit into one blob", content.Size, int64(s.block)*maxBlocks),
		}
	}
	blobClient := s.client.NewBlockBlobClient(name)
	blocks, err := s.stage(ctx, key, blobClient, verified)
	if err != nil {
		return bucket.Info{}, err
	}
	if !verified.Verified() {
		return bucket.Info{}, &fault.Error{
			Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.Internal,
			Err: errors.New("the body ended before it was verified"),
		}
	}
	answer, err := blobClient.CommitBlockList(ctx, blocks, &blockblob.CommitBlockListOptions{
		HTTPHeaders: headers(name, content.Class), Tier: s.tier(content.Class), CPKScopeInfo: s.scope(), AccessConditions: conditions,
	})
	if err != nil {
		return bucket.Info{}, s.failCommit(ctx, key, err)
	}
	if tagOf(answer.ETag) == bucket.Absent {
		return bucket.Info{}, unproven(opCreate, key)
	}
	return bucket.Info{
		Key: key, Size: content.Size, Tag: tagOf(answer.ETag),
		Modified: valueOf(answer.LastModified, time.Time{}),
	}, nil
}

// stage sends all blocks and returns their names. A block is in memory, so a request that failed
// on the way is sent again by itself rather than with the whole object.
func (s *Store) stage(ctx context.Context, key string, blobClient *blockblob.Client, body io.Reader) ([]string, error) {
	attempt := make([]byte, 12)
	if _, err := rand.Read(attempt); err != nil {
		return nil, fmt.Errorf("create object %s: name blocks: %w", key, err)
	}
	var blocks []string
	buffer := make([]byte, s.block)
	for {
		n, err := io.ReadFull(body, buffer)
		if err == io.EOF { //nolint:errorlint // a source's error that wraps io.EOF is no end of the body
			return blocks, nil
		}
		if err != nil && err != io.ErrUnexpectedEOF { //nolint:errorlint // likewise
			return nil, fmt.Errorf("create object %s: %w", key, err)
		}
		id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(bytes.Clone(attempt), uint32(len(blocks))))
		sum := md5.Sum(buffer[:n]) //nolint:gosec // see the import
		err = s.options.Retry.Do(ctx, bucket.Retryable, func(int) error {
			_, err := blobClient.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(buffer[:n])), &blockblob.StageBlockOptions{
				TransactionalValidation: blob.TransferValidationTypeMD5(sum[:]), CPKScopeInfo: s.scope(),
			})
			if err != nil {
				return s.fail(ctx, opCreate, key, err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, id)
	}
}

func absent() *blob.AccessConditions {
	everything := azcore.ETagAny
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &everything}}
}

func unchanged(tag bucket.Tag) *blob.AccessConditions {
	etag := azcore.ETag(`"` + string(tag) + `"`)
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}}
}

func headers(name string, class bucket.ContentClass) *blob.HTTPHeaders {
	mediaType, cacheControl := bucket.MediaType(name, class), bucket.CacheControl(class)
	return &blob.HTTPHeaders{BlobContentType: &mediaType, BlobCacheControl: &cacheControl}
}

// tier is set on data only: a cold tier bills each rewrite of a document.
func (s *Store) tier(class bucket.ContentClass) *blob.AccessTier {
	if s.options.AccessTier == "" || class != bucket.Data {
		return nil
	}
	tier := blob.AccessTier(s.options.AccessTier)
	return &tier
}

func (s *Store) scope() *blob.CPKScopeInfo {
	if s.options.EncryptionScope == "" {
		return nil
	}
	return &blob.CPKScopeInfo{EncryptionScope: &s.options.EncryptionScope}
}

// Swap implements bucket.Swapper.
func (s *Store) Swap(ctx context.Context, key string, old bucket.Tag, data []byte) (bucket.Tag, error) {
	name, err := s.name(key)
	if err != nil {
		return bucket.Absent, err
	}
	conditions := absent()
	if old != bucket.Absent {
		conditions = unchanged(old)
	}
	sum := md5.Sum(data) //nolint:gosec // see the import
	answer, err := s.put(ctx, name, data, sum, bucket.Pointer, conditions)
	if err != nil {
		return bucket.Absent, s.fail(ctx, opSwap, key, err)
	}
	if tagOf(answer.ETag) == bucket.Absent {
		return bucket.Absent, unproven(opSwap, key)
	}
	return tagOf(answer.ETag), nil
}

// unproven is the error of a success that names no blob: what stands at the key decides.
func unproven(op, key string) error {
	return bucket.Unreadable(op, key, errors.New("it names no ETag"))
}

// Delete implements bucket.Deleter.
func (s *Store) Delete(ctx context.Context, key string, tag bucket.Tag) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	if tag == bucket.Absent {
		return &fault.Error{
			Op: opDelete, Object: key, Side: fault.SideBucket, Kind: fault.Conflict,
			Err: errors.New("no tag is named"),
		}
	}
	_, err = s.client.NewBlobClient(name).Delete(ctx, &blob.DeleteOptions{AccessConditions: unchanged(tag)})
	if err == nil {
		return nil
	}
	err = s.fail(ctx, opDelete, key, err)
	if fault.Is(err, fault.Conflict) { // a key that is gone fails the condition, too
		if _, gone := s.Stat(ctx, key); fault.Is(gone, fault.NotFound) {
			return nil
		}
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// CreateRaw implements bucket.RawCreator: it sends one body and announces another's checksum.
func (s *Store) CreateRaw(ctx context.Context, key string, sent, announced []byte) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	sum := md5.Sum(announced) //nolint:gosec // see the import
	if _, err := s.put(ctx, name, sent, sum, bucket.Data, absent()); err != nil {
		return s.fail(ctx, opCreate, key, err)
	}
	return nil
}

// failCommit reads the error of a commit. A rival's commit discards our blocks, so that "unknown
// block" means that somebody else was faster: the key is looked at.
func (s *Store) failCommit(ctx context.Context, key string, err error) error {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusBadRequest || answer.ErrorCode != codeInvalidBlockList {
		return s.fail(ctx, opCreate, key, err)
	}
	failure := &fault.Error{
		Op: opCreate, Object: key, Side: fault.SideBucket, Kind: fault.Contended,
		Status: answer.StatusCode, Err: errors.New("another writer discarded our blocks"),
	}
	if _, err := s.Stat(ctx, key); err == nil {
		failure.Kind = fault.Exists
	}
	return failure
}
