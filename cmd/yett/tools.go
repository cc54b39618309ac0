package main

import "github.com/spf13/cobra"

// toolCommands are the subcommands for authors and for measuring.
func toolCommands() []*cobra.Command { return []*cobra.Command{scannerCommand(), benchCommand()} }
