package remotetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// SendKilling sends batches as the host would, from the last acknowledged one on, until all are acknowledged. Each time
// another part of all records was acknowledged it calls kill, which ends the service and starts it again, kills times
// in all. failures is how many calls failed meanwhile.
func SendKilling(ctx context.Context, t *testing.T, p *plugintest.Client, todo []*plugin.Batch, kills int,
	kill func(context.Context) error) (failures int) {
	t.Helper()
	all := todo[len(todo)-1].Last
	var acked atomic.Uint64
	killed := make(chan error, 1)
	go func() { killed <- killOften(ctx, kills, all, &acked, kill) }()
	for len(todo) > 0 && ctx.Err() == nil {
		at, err := p.Consume(ctx, todo[:min(4, len(todo))]...)
		for len(todo) > 0 && todo[0].Last <= at {
			todo = todo[1:]
		}
		acked.Store(max(acked.Load(), at))
		if err != nil {
			failures++
		}
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if len(todo) > 0 {
		t.Fatalf("%d batches were never acknowledged", len(todo))
	}
	return failures
}

func killOften(ctx context.Context, kills int, all uint64, acked *atomic.Uint64,
	kill func(context.Context) error) error {
	for k := range uint64(kills) {
		for at := (k + 1) * all / uint64(kills+1); acked.Load() < at; {
			select {
			case <-ctx.Done():
				return errors.New("too slow")
			case <-time.After(time.Millisecond):
			}
		}
		if err := kill(ctx); err != nil {
			return err
		}
	}
	return nil
}
