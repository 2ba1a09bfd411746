package transfer

import "sync"

const (
	// smallFile is the largest file that is fetched whole before it is written: its write can
	// then be repeated without another download.
	smallFile = 1 << 20
	// streamBuffer is the size of reads from the source of larger files.
	streamBuffer = 256 << 10
)

// bufferSizes are the classes in which buffers are kept, so that 2 KiB files do not hold 1 MiB.
var bufferSizes = [...]int{4 << 10, 16 << 10, 64 << 10, streamBuffer, smallFile}

// buffers are pools of byte slices by size class.
type buffers struct {
	pools [len(bufferSizes)]sync.Pool
}

// get returns a slice of at least size bytes, which must not exceed smallFile.
func (b *buffers) get(size int) *[]byte {
	for class, capacity := range bufferSizes {
		if size > capacity {
			continue
		}
		if buffer, ok := b.pools[class].Get().(*[]byte); ok {
			return buffer
		}
		buffer := make([]byte, capacity)
		return &buffer
	}
	buffer := make([]byte, size)
	return &buffer
}

func (b *buffers) put(buffer *[]byte) {
	for class, capacity := range bufferSizes {
		if len(*buffer) == capacity {
			b.pools[class].Put(buffer)
			return
		}
	}
}
