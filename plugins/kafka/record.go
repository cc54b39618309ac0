package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
)

// recordLimits bound what is read of one record to find its key and type.
var recordLimits = exact.Limits{Depth: 128, Tokens: 4 << 20}

// item is one Kafka record and the number of the log that it stands for.
type item struct {
	seq uint64
	rec *kgo.Record
}

// items makes a batch's Kafka records, in the order of the log: a gap stands where its first record would have been.
func (o *options) items(b *plugin.Batch) ([]item, error) {
	out := make([]item, 0, len(b.Records)+1)
	gap := b.Gap
	for i := range b.Records {
		r := &b.Records[i]
		if gap != nil && gap.First <= r.Seq {
			one, err := o.gapItem(b)
			if err != nil {
				return nil, err
			}
			out, gap = append(out, one), nil
		}
		out = append(out, item{r.Seq, o.record(b, r)})
	}
	if gap == nil {
		return out, nil
	}
	one, err := o.gapItem(b)
	return append(out, one), err
}

// record is one line of the log, byte for byte, with what a consumer needs to sort and deduplicate in headers. Its
// timestamp is that of sending, so that the topic's retention counts from then.
func (o *options) record(b *plugin.Batch, r *plugin.Record) *kgo.Record {
	key, typ := b.StoreID, ""
	var doc exact.Doc
	if err := doc.Parse(string(r.JSON), recordLimits); err == nil {
		typ = doc.Root().Get("type").Str()
		if v := doc.Root().Get(o.Key).Str(); v != "" && o.Key != "store_id" {
			key = v
		}
	}
	return &kgo.Record{Topic: o.Topic, Key: []byte(key), Value: r.JSON, Headers: headers(b, typ,
		kgo.RecordHeader{Key: "yett-seq", Value: strconv.AppendUint(nil, r.Seq, 10)},
		kgo.RecordHeader{Key: "yett-leaf-hash", Value: []byte(hex.EncodeToString(r.Leaf[:]))},
	)}
}

func headers(b *plugin.Batch, typ string, more ...kgo.RecordHeader) []kgo.RecordHeader {
	out := append(more,
		kgo.RecordHeader{Key: "yett-store-id", Value: []byte(b.StoreID)},
		kgo.RecordHeader{Key: "yett-type", Value: []byte(typ)},
		kgo.RecordHeader{Key: "content-type", Value: []byte("application/json")},
	)
	if b.Replay {
		out = append(out, kgo.RecordHeader{Key: "yett-replay", Value: []byte("true")})
	}
	return out
}

// gapItem says that records are missing for good, since retention removed them before they were delivered. Its key is
// the store id, whatever the key of records is.
func (o *options) gapItem(b *plugin.Batch) (item, error) {
	g := b.Gap
	value, err := json.Marshal(struct {
		Type    string `json:"type"`
		StoreID string `json:"store_id"`
		First   uint64 `json:"first_seq"`
		Last    uint64 `json:"last_seq"`
		Reason  string `json:"reason"`
	}{"gap", b.StoreID, g.First, g.Last, g.Reason})
	if err != nil {
		return item{}, fmt.Errorf("make the record of a gap: %w", err)
	}
	return item{g.First, &kgo.Record{Topic: o.Topic, Key: []byte(b.StoreID), Value: value, Headers: headers(b, "gap",
		kgo.RecordHeader{Key: "yett-first-seq", Value: strconv.AppendUint(nil, g.First, 10)},
		kgo.RecordHeader{Key: "yett-last-seq", Value: strconv.AppendUint(nil, g.Last, 10)},
	)}}, nil
}

// weight is an upper bound of the bytes that a record takes in a record batch.
func weight(r *kgo.Record) int {
	n := 64 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 16 + len(h.Key) + len(h.Value)
	}
	return n
}
