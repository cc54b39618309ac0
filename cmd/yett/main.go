// Command yett is the gateway, its administration and its tools in one binary. main parses nothing and decides nothing:
// each subcommand has a file of its own here.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/yett-dev/yett/core/wasmhost"
)

func main() {
	if isBenchPlugin() {
		return
	}
	if is, err := wasmhost.Child(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "yett:", err)
		os.Exit(exitError)
	} else if is {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
