package testservers

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// freePorts returns n TCP ports of the loopback address on which nobody listened a moment ago.
// All are held while the others are chosen, so that they differ. Another process can take one
// before the server does; start tries again with other ports then.
func freePorts(n int) ([]int, error) {
	var (
		config    net.ListenConfig
		ports     []int
		listeners []net.Listener
		failure   error
	)
	for range n {
		listener, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			failure = fmt.Errorf("find free port: %w", err)
			break
		}
		listeners = append(listeners, listener)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	for _, listener := range listeners {
		failure = errors.Join(failure, listener.Close())
	}
	return ports, failure
}
