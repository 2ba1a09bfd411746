package netclient

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// watchSilence makes the connections of next break after a silence. Without it a peer that takes no
// more of a body, or sends no more of one, holds its caller for ever: TCP itself never gives up on a
// peer that is there and says nothing.
func watchSilence(next dial, limit time.Duration) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, limit: limit}, nil
	}
}

// watchedConn puts the deadline of both directions off with each read and each write, so that a long
// upload does not end the read that waits for its answer.
type watchedConn struct {
	net.Conn
	limit  time.Duration
	silent atomic.Bool // a read ended for the silence: its caller then closes the connection under a write
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.silent.Store(true)
	}
	return n, err
}

// writeStep is how much is written under one deadline, in bytes: a buffer of any size must get through
// a slow line as long as some of it moves.
const writeStep = 64 << 10

// Write implements net.Conn.
func (c *watchedConn) Write(p []byte) (written int, err error) {
	for {
		if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
			return written, err
		}
		step := p[written:min(len(p), written+writeStep)]
		n, err := c.Conn.Write(step)
		written += n
		if errors.Is(err, net.ErrClosed) && c.silent.Load() {
			err = os.ErrDeadlineExceeded
		}
		if err != nil || written == len(p) {
			return written, err
		}
	}
}
