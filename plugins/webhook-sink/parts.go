package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/yett-dev/yett/sdk/plugin"
)

// part is what one request carries: records of a batch, or one of them, or the gap.
type part struct {
	records []plugin.Record
	gap     *plugin.Gap
	single  bool // sent as one record, not as a batch
	whole   bool // all of the batch: only then the tree root is of its last record
}

// parts cuts a batch as the settings say, in order. A batch in which nothing passed the filter has none.
func parts(b *plugin.Batch, perRecord bool) []part {
	if len(b.Records) == 0 && b.Gap == nil {
		return nil
	}
	if !perRecord {
		return []part{{records: b.Records, gap: b.Gap, whole: true}}
	}
	var out []part
	gap := b.Gap
	for i := range b.Records {
		if gap != nil && gap.First <= b.Records[i].Seq {
			out, gap = append(out, part{gap: gap, single: true}), nil
		}
		out = append(out, part{records: b.Records[i : i+1], single: true})
	}
	if gap != nil {
		out = append(out, part{gap: gap, single: true})
	}
	return out
}

// seq is the first record of the part: it fails when the part does.
func (p part) seq() uint64 {
	switch {
	case len(p.records) == 0:
		return p.gap.First
	case p.gap != nil && p.gap.First < p.records[0].Seq:
		return p.gap.First
	}
	return p.records[0].Seq
}

// last is the end of what the part speaks of.
func (p part) last() uint64 {
	if len(p.records) == 0 {
		return p.gap.Last
	}
	last := p.records[len(p.records)-1].Seq
	if p.gap != nil {
		last = max(last, p.gap.Last)
	}
	return last
}

// splits says whether there are halves.
func (p part) splits() bool {
	return !p.single && (len(p.records) > 1 || len(p.records) == 1 && p.gap != nil)
}

// halves are two parts that say the same. The gap goes where its place in the order is.
func (p part) halves() (part, part) {
	if len(p.records) == 1 { // and a gap
		a, b := part{gap: p.gap}, part{records: p.records}
		if p.gap.First > p.records[0].Seq {
			a, b = b, a
		}
		return a, b
	}
	half := len(p.records) / 2
	a, b := part{records: p.records[:half]}, part{records: p.records[half:]}
	switch {
	case p.gap == nil:
	case p.gap.First < p.records[half].Seq:
		a.gap = p.gap
	default:
		b.gap = p.gap
	}
	return a, b
}

// id is the same whenever the same records come.
func (p part) id(b *plugin.Batch) string {
	switch {
	case p.single && p.gap != nil:
		return fmt.Sprintf("%s-gap-%d-%d", b.StoreID, p.gap.First, p.gap.Last)
	case p.single:
		return fmt.Sprintf("%s-%d", b.StoreID, p.records[0].Seq)
	case p.whole:
		return fmt.Sprintf("%s-%d-%d", b.StoreID, b.First, b.Last)
	}
	return fmt.Sprintf("%s-%d-%d", b.StoreID, p.seq(), p.last())
}

type event struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp,omitempty"` // of the last record
	Data      any    `json:"data"`
}

type batchData struct {
	StoreID string `json:"store_id"`
	First   uint64 `json:"first_seq"`
	Last    uint64 `json:"last_seq"`
	Root    string `json:"tree_root,omitempty"`
	// Checkpoint is a signed note with that root.
	Checkpoint string            `json:"checkpoint,omitempty"`
	Replay     bool              `json:"replay,omitempty"`
	Gap        *gapData          `json:"gap,omitempty"`
	Records    []json.RawMessage `json:"records"`
}

type gapData struct {
	StoreID string `json:"store_id,omitempty"`
	First   uint64 `json:"first_seq"`
	Last    uint64 `json:"last_seq"`
	Reason  string `json:"reason"`
}

// body is the request's JSON. Records are in it as they came; only white space between their members may go.
func (p part) body(b *plugin.Batch) ([]byte, error) {
	var e event
	if len(p.records) > 0 {
		var head struct {
			Timestamp string `json:"timestamp"`
		}
		if err := json.Unmarshal(p.records[len(p.records)-1].JSON, &head); err != nil {
			return nil, fmt.Errorf("record %d is no JSON object: %w", p.records[len(p.records)-1].Seq, err)
		}
		e.Timestamp = head.Timestamp
	}
	switch {
	case p.single && p.gap != nil:
		e.Type, e.Data = "yett.audit.gap", gapData{b.StoreID, p.gap.First, p.gap.Last, p.gap.Reason}
	case p.single:
		e.Type, e.Data = "yett.audit.record", p.records[0].JSON
	default:
		d := batchData{StoreID: b.StoreID, First: p.seq(), Last: p.last(), Replay: b.Replay, Records: []json.RawMessage{}}
		if p.whole {
			d.First, d.Last, d.Root = b.First, b.Last, hex.EncodeToString(b.Root[:])
			d.Checkpoint = b.Checkpoint
		}
		if p.gap != nil {
			d.Gap = &gapData{"", p.gap.First, p.gap.Last, p.gap.Reason}
		}
		for i := range p.records {
			d.Records = append(d.Records, p.records[i].JSON)
		}
		e.Type, e.Data = "yett.audit.batch", d
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
