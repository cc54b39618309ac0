//go:build !linux

package client

import (
	"errors"
	"net"
)

// listener cannot tell here.
func listener(net.Conn) (uint32, error) {
	return 0, errors.New("this system does not say which user listens; leave SocketOwner out, or use https")
}
