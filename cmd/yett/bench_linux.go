package main

import (
	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/bench"
)

// benchCommands are those that measure this machine.
func benchCommands() []*cobra.Command { return []*cobra.Command{bench.Command(benchGateway)} }
