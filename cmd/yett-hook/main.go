// Command yett-hook is `yett hook` as a program of its own: the same code without the gateway, so that an agent waits a
// few milliseconds less for each tool. It owns nothing but its start.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := hookrun.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
