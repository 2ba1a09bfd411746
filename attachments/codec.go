package attachments

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// pageCodec compresses the pages of an index with zstd. The Parquet library's own zstd keeps
// 32 MiB of history for a window that no page of ours fills, and takes its other settings from
// defaults, which may change and would change an index's bytes.
type pageCodec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// String implements compress.Codec.
func (c *pageCodec) String() string { return "ZSTD" }

// CompressionCodec implements compress.Codec.
func (c *pageCodec) CompressionCodec() format.CompressionCodec { return format.Zstd }

// Encode implements compress.Codec.
func (c *pageCodec) Encode(dst, src []byte) ([]byte, error) {
	if c.encoder == nil {
		encoder, err := zstd.NewWriter(nil,
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderLevel(zstd.SpeedDefault),
			zstd.WithWindowSize(indexPageBytes),
			zstd.WithEncoderCRC(false),
			zstd.WithZeroFrames(true), // an empty page is a frame too
		)
		if err != nil {
			return nil, fmt.Errorf("prepare zstd: %w", err)
		}
		c.encoder = encoder
	}
	return c.encoder.EncodeAll(src, dst[:0]), nil
}

// Decode implements compress.Codec.
func (c *pageCodec) Decode(dst, src []byte) ([]byte, error) {
	if c.decoder == nil {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("prepare zstd: %w", err)
		}
		c.decoder = decoder
	}
	return c.decoder.DecodeAll(src, dst[:0])
}
