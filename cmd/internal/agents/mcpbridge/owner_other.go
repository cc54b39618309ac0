//go:build !linux

package mcpbridge

import "errors"

// listensAs refuses: this system does not say who listens.
func listensAs(string, uint32) error {
	return errors.New("this system does not say who listens: give the gateway a certificate (mcp.tls) and pin it")
}
