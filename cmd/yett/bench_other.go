//go:build !linux

package main

import "github.com/spf13/cobra"

// benchCommands: the gateway that the benchmark measures needs Linux.
func benchCommands() []*cobra.Command { return nil }
