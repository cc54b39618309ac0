package wasmhost

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero"
)

// All that stops a running guest is in this file, and nothing else knows how. wazero looks at the context at loop headers,
// which costs a goroutine a call and 12–17 ns a loop iteration, and never sees a recursion without loops.

// interruptible makes guests stop when their call's context is done.
func interruptible(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.WithCloseOnContextDone(true)
}

// within bounds ctx by d, and costs nothing when ctx ends sooner anyway.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}
