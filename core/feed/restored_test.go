package feed

import (
	"slices"
	"testing"
	"time"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// A log that was restored from a backup: batches have records of one store, under its id, and the record that says
// where the other store's end goes out whatever the filter.
func TestNoBatchHasRecordsOfTwoStores(t *testing.T) {
	for what, filtered := range map[string]bool{"all": false, "filtered": true} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world, s *Settings) {
				w.over = 10
				if filtered {
					w.kinds = []string{"kill"}
					s.Types = w.kinds
				}
			}, func(t *testing.T, w *world, p *Pump) {
				after(time.Second)
				w.add(10, "decision")
				w.add(1, "restored")
				w.add(20, "decision")
				w.add(1, "kill")
				after(2 * time.Second)
				expect(t, "cursor", p.Status().Cursor, 32)
				told := slices.IndexFunc(w.batches, func(b *pluginv1.Batch) bool { return b.FirstSeq == 11 })
				if told < 1 {
					t.Fatal("no batch begins with the first record of the new store")
				}
				if r := w.batches[told].Records; len(r) == 0 || r[0].Seq != 11 {
					t.Errorf("the record of the restore is not in it: %v", r)
				}
				for i, b := range w.batches {
					want := "sto"
					if i >= told {
						want = "sto2"
					}
					if b.StoreId != want || i < told && b.LastSeq > 10 {
						t.Errorf("batch %d to %d is of %s", b.FirstSeq, b.LastSeq, b.StoreId)
					}
				}
			})
		})
	}
}
