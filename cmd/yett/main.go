// Command yett is the gateway, its administration and its tools in one binary. main parses nothing and decides nothing:
// each subcommand has a file of its own here.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/wasm/host"
)

// endMost is how long a command may take to end after a signal.
const endMost = 10 * time.Second

// serving says that a gateway runs here, which has its own time to end.
var serving atomic.Bool

func main() {
	if is, err := host.Child(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "yett:", err)
		os.Exit(cli.ExitFailure)
	} else if is {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the process at once
		time.AfterFunc(endMost, func() {
			if !serving.Load() {
				said := make(chan struct{})
				go func() { // what hangs may be stderr
					defer close(said)
					fmt.Fprintf(os.Stderr, "yett: a signal was to end this %v ago, and something hangs: it ends now\n", endMost)
				}()
				select {
				case <-said:
				case <-time.After(flushMost):
				}
				os.Exit(cli.ExitFailure)
			}
		})
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
