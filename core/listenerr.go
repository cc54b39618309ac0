package core

import (
	"errors"
	"fmt"
	"syscall"
)

// listenError says what to do about an address that cannot be served.
func listenError(key string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = " (another program serves this address: stop it, or choose another port; port 0 takes a free one)"
	case errors.Is(err, syscall.EACCES):
		hint = " (ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = " (this machine does not have that address)"
	}
	return fmt.Errorf("%s%w%s", key, err, hint)
}
