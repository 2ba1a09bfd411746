package feedsim

import (
	"testing"
)

// clientOf is a connection whose client looks at the journal as soon as it has the whole answer.
type clientOf struct {
	t        *testing.T
	x        *exchange
	received int64
}

func (c *clientOf) Write(p []byte) (int, error) {
	c.received += int64(len(p))
	c.x.feed.log.mu.Lock()
	defer c.x.feed.log.mu.Unlock()
	if whole := c.received == c.x.size; whole != c.x.recorded.Complete {
		c.t.Errorf("after %d of %d bytes the log says complete: %v", c.received, c.x.size, c.x.recorded.Complete)
	}
	return len(p), nil
}

// Whoever has received an answer finds it in the log: the last byte is sent after the record.
func TestRecordStandsBeforeTheLastByte(t *testing.T) {
	for _, chunks := range [][]int{{10}, {9, 1}, {1, 9}, {4, 0, 6}} {
		feed := &Feed{log: newJournal()}
		x := &exchange{feed: feed, size: 10}
		x.recorded = feed.log.begin(x.event)
		writer := &sentWriter{exchange: x, next: &clientOf{t: t, x: x}, complete: true}
		for _, n := range chunks {
			if written, err := writer.Write(make([]byte, n)); written != n || err != nil {
				t.Errorf("wrote %d of %d: %v", written, n, err)
			}
		}
		if x.event.Sent != 10 {
			t.Errorf("counted %d bytes", x.event.Sent)
		}
	}
}
