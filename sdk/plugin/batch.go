package plugin

import (
	"encoding/json"
	"errors"
	"fmt"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const maxRecords = 256 // of one batch

// Batch is a range of the audit log: every record of First to Last that the subscriber's filter lets through. All that
// is not in Records was filtered out, or is in Gap.
type Batch struct {
	StoreID     string // of the log
	First, Last uint64 // inclusive
	Records     []Record
	Gap         *Gap     // nil: none
	Root        [32]byte // RFC 6962 root hash of the log's tree over the records 1 to Last
	// Checkpoint is a signed C2SP tlog-checkpoint with that root, or "": not every batch has one. Kept where nobody of the
	// gateway's machine can remove it, it shows that the log was put back to an earlier time.
	Checkpoint string
	// Restored is set in the first batch of a store whose log was restored from a backup: it goes on there behind the
	// other store's. The first of Records is the record that says so, whatever the filter.
	Restored *Restored
	Replay   bool // an operator asked for records that were delivered before
}

// Record is one record of the log.
type Record struct {
	Seq  uint64
	JSON json.RawMessage // one line of the log; its members args and context as the subscriber's payload setting says
	Leaf [32]byte        // RFC 6962 leaf hash of the record as it stands in the log
}

// Gap are records that do not come: the operator's retention removed them before they were delivered (Reason is
// "retention"), or they were passed over since they had failed ("dead_letter").
type Gap struct {
	First, Last uint64
	Reason      string
}

// Restored says where the log of a store goes on: behind record Seq of another one, which is First - 1. Up to there the
// records are those of the other store, and keep its id. What the other store wrote behind it is not in this log: those
// records have the same numbers, and another StoreID.
type Restored struct {
	StoreID string `json:"from_store_id"`
	Epoch   uint32 `json:"from_epoch"`
	Seq     uint64 `json:"from_seq"`
}

// restoredOf reads the first record of a batch.
func restoredOf(b *Batch) *Restored {
	var r struct {
		Type string `json:"type"`
		Restored
	}
	if len(b.Records) == 0 || b.Records[0].Seq != b.First || json.Unmarshal(b.Records[0].JSON, &r) != nil ||
		r.Type != "restored" || r.Restored.Seq+1 != b.First || r.Restored.StoreID == "" || r.Restored.StoreID == b.StoreID {
		return nil
	}
	return &r.Restored
}

// RecordError is what Consume returns when it took in everything before one record of the batch, but not that record.
type RecordError struct {
	Seq uint64 // the record that failed, within First to Last
	Err error
}

// Error names the record and the reason.
func (e *RecordError) Error() string { return fmt.Sprintf("record %d: %v", e.Seq, e.Err) }

// Unwrap gives the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// Later is what Consume returns when it took in everything before one record of the batch and can take in no more now,
// as when the service behind it went down between two records. Nothing is held against that record. An error that is no
// Later and no RecordError says the same of the whole batch: nothing of it was taken in.
type Later struct {
	Seq uint64 // the first record that was not taken in, within First to Last
	Err error
}

// Error says how far it came, and the reason.
func (e *Later) Error() string {
	return fmt.Sprintf("from record %d on nothing is taken in now: %v", e.Seq, e.Err)
}

// Unwrap gives the reason.
func (e *Later) Unwrap() error { return e.Err }

// partial is what an error of Consume says: the first record that was not taken in, 0 if it names none, and whether
// that one is at fault. Of several, as errors.Join makes them, the earliest counts, and of the same record a Later:
// what is acknowledged never comes again, and what is held against a record may cost it.
func partial(err error) (seq uint64, fault, ok bool) {
	note := func(at uint64, its bool) {
		if !ok || at < seq || at == seq && !its {
			seq, fault, ok = at, its, true
		}
	}
	switch e := err.(type) {
	case *RecordError:
		note(e.Seq, true)
	case *Later:
		note(e.Seq, false)
	}
	inner := []error{errors.Unwrap(err)}
	if many, is := err.(interface{ Unwrap() []error }); is {
		inner = many.Unwrap()
	}
	for _, e := range inner {
		if e == nil {
			continue
		}
		if at, its, named := partial(e); named {
			note(at, its)
		}
	}
	return seq, fault, ok
}

// batchOf refuses what is no batch.
func batchOf(m *pluginv1.Batch) (*Batch, error) {
	b := &Batch{StoreID: m.GetStoreId(), First: m.GetFirstSeq(), Last: m.GetLastSeq(), Replay: m.GetReplay(),
		Checkpoint: m.GetCheckpoint()}
	switch {
	case b.StoreID == "":
		return nil, errors.New("store_id: is missing")
	case b.First == 0 || b.Last < b.First:
		return nil, fmt.Errorf("first_seq, last_seq: %d and %d are no range", b.First, b.Last)
	case len(m.GetTreeRoot()) != len(b.Root):
		return nil, fmt.Errorf("tree_root: %d bytes, must be %d", len(m.GetTreeRoot()), len(b.Root))
	case len(m.GetRecords()) > maxRecords:
		return nil, fmt.Errorf("records: %d, the limit is %d", len(m.GetRecords()), maxRecords)
	}
	copy(b.Root[:], m.GetTreeRoot())
	if g := m.GetGap(); g != nil {
		b.Gap = &Gap{g.GetFirstSeq(), g.GetLastSeq(), g.GetReason()}
		if b.Gap.First < b.First || b.Gap.Last > b.Last || b.Gap.Last < b.Gap.First {
			return nil, fmt.Errorf("gap: %d to %d is not within %d to %d", b.Gap.First, b.Gap.Last, b.First, b.Last)
		}
	}
	b.Records = make([]Record, len(m.GetRecords()))
	next := b.First
	for i, r := range m.GetRecords() {
		seq := r.GetSeq()
		switch {
		case seq < next || seq > b.Last:
			return nil, fmt.Errorf("records: %d is not in order within %d to %d", seq, b.First, b.Last)
		case b.Gap != nil && seq >= b.Gap.First && seq <= b.Gap.Last:
			return nil, fmt.Errorf("records: %d is in the gap", seq)
		case len(r.GetLeafHash()) != len(b.Root):
			return nil, fmt.Errorf("records: leaf_hash of %d: %d bytes, must be %d", seq, len(r.GetLeafHash()), len(b.Root))
		case !json.Valid(r.GetJson()):
			return nil, fmt.Errorf("records: %d is no JSON", seq)
		}
		b.Records[i] = Record{Seq: seq, JSON: r.GetJson(), Leaf: [32]byte(r.GetLeafHash())}
		next = seq + 1
	}
	b.Restored = restoredOf(b)
	return b, nil
}
