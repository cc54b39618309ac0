package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/yett-dev/yett/core"
	"github.com/yett-dev/yett/core/store"
)

// hangups gets each SIGHUP. It is asked for before the gateway starts: until then the signal ends a process.
func hangups() chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals
}

// reloadOnSignal reloads on each of the signals until stop is called, which ends all reloads. How it went is in the
// log.
func reloadOnSignal(ctx context.Context, g *core.Gateway, signals chan os.Signal) (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				_, _ = g.Reload(ctx, store.Who{Principal: "system:sighup", Method: "system", Surface: "system"})
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		g.EndReloads()
		<-ended
	}
}
