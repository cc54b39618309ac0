package feed

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// TestCheckpoints: a batch has a signed checkpoint of its own root as often as the settings say, and not where nobody
// can sign.
func TestCheckpoints(t *testing.T) {
	var signs atomic.Bool
	bubble(t, func(_ *world, s *Settings) {
		s.Sign.Every = time.Minute
		s.Sign.Text = func(store string, size uint64, root [32]byte) string {
			if !signs.Load() {
				return ""
			}
			return fmt.Sprintf("%s %d %x", store, size, root)
		}
	}, func(t *testing.T, w *world, p *Pump) {
		one := func() *pluginv1.Batch {
			w.add(1, "decision")
			after(2 * time.Second)
			return w.batches[len(w.batches)-1]
		}
		expect(t, "where nobody can sign", one().GetCheckpoint(), "")
		signs.Store(true)
		b := one()
		expect(t, "the next", b.GetCheckpoint(), fmt.Sprintf("%s %d %x", b.GetStoreId(), b.GetLastSeq(), b.GetTreeRoot()))
		expect(t, "too soon", one().GetCheckpoint(), "")
		after(time.Minute)
		expect(t, "a minute later", one().GetCheckpoint() != "", true)
		expect(t, "close", p.Close(context.Background()), nil)
	})
}
