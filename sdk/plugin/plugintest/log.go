package plugintest

import (
	"encoding/json"

	"github.com/yett-dev/yett/sdk/plugin"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Log makes batches as the host would of a growing log: numbered from 1, with the hashes of the tree. The zero Log is
// ready.
type Log struct {
	StoreID string // "test" if it is empty
	last    uint64
	leaves  [][32]byte
}

// Append adds records, each a JSON text, and gives the batch that holds them.
func (l *Log) Append(records ...string) *plugin.Batch {
	if l.StoreID == "" {
		l.StoreID = "test"
	}
	b := &plugin.Batch{StoreID: l.StoreID, First: l.last + 1, Last: l.last + uint64(len(records))}
	for _, r := range records {
		l.last++
		leaf := plugin.LeafHash([]byte(r))
		l.leaves = append(l.leaves, leaf)
		b.Records = append(b.Records, plugin.Record{Seq: l.last, JSON: json.RawMessage(r), Leaf: leaf})
	}
	b.Root = plugin.TreeRoot(l.leaves)
	return b
}

func batchOf(b *plugin.Batch) *pluginv1.Batch {
	m := &pluginv1.Batch{StoreId: b.StoreID, FirstSeq: b.First, LastSeq: b.Last, TreeRoot: b.Root[:], Replay: b.Replay,
		Checkpoint: b.Checkpoint}
	if b.Gap != nil {
		m.Gap = &pluginv1.Gap{FirstSeq: b.Gap.First, LastSeq: b.Gap.Last, Reason: b.Gap.Reason}
	}
	for i := range b.Records {
		r := &b.Records[i]
		m.Records = append(m.Records, &pluginv1.Record{Seq: r.Seq, Json: r.JSON, LeafHash: r.Leaf[:]})
	}
	return m
}
