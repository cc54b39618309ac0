package plugin

import (
	"fmt"
	"testing"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// restoredLog is a log whose first records are of store "old", and that goes on as "new".
type restoredLog struct {
	leaves [][32]byte
	lines  []string
}

func newRestoredLog(old, all int) *restoredLog {
	l := &restoredLog{}
	for seq := 1; seq <= all; seq++ {
		line := fmt.Sprintf(`{"seq":%d,"store_id":"old","type":"decision"}`, seq)
		switch {
		case seq == old+1:
			line = fmt.Sprintf(`{"seq":%d,"store_id":"new","epoch":2,"type":"restored","from_store_id":"old",`+
				`"from_epoch":1,"from_seq":%d}`, seq, old)
		case seq > old:
			line = fmt.Sprintf(`{"seq":%d,"store_id":"new","epoch":2,"type":"decision"}`, seq)
		}
		l.lines, l.leaves = append(l.lines, line), append(l.leaves, LeafHash([]byte(line)))
	}
	return l
}

func (l *restoredLog) batch(t *testing.T, store string, first, last int) *Batch {
	t.Helper()
	root := TreeRoot(l.leaves[:last])
	m := &pluginv1.Batch{StoreId: store, FirstSeq: uint64(first), LastSeq: uint64(last), TreeRoot: root[:]}
	for seq := first; seq <= last; seq++ {
		leaf := l.leaves[seq-1]
		m.Records = append(m.Records, &pluginv1.Record{Seq: uint64(seq), Json: []byte(l.lines[seq-1]), LeafHash: leaf[:]})
	}
	b, err := batchOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A subscriber that had seen no more than the backup goes on with what it can prove.
func TestChainOverARestore(t *testing.T) {
	l := newRestoredLog(5, 9)
	var c Chain
	for _, b := range []*Batch{l.batch(t, "old", 1, 5), l.batch(t, "new", 6, 8), l.batch(t, "old", 3, 5), // again
		l.batch(t, "new", 6, 8), l.batch(t, "new", 9, 9)} {
		again := b.Last <= c.Last
		if proven, err := c.Add(b); err != nil || proven == again {
			t.Fatalf("%s %d to %d: proven %v, %v", b.StoreID, b.First, b.Last, proven, err)
		}
	}
	if c.StoreID != "new" || c.Last != 9 || c.Broken {
		t.Errorf("%+v", c)
	}
}

// One that had seen more of the old store takes the new one's records of the same numbers, and proves nothing any more.
func TestChainThatHadMoreThanTheBackup(t *testing.T) {
	lost := newRestoredLog(99, 9) // the log of the old store went on
	l := newRestoredLog(5, 9)
	var c Chain
	if proven, err := c.Add(lost.batch(t, "old", 1, 9)); err != nil || !proven {
		t.Fatal(proven, err)
	}
	if proven, err := c.Add(l.batch(t, "old", 4, 5)); err != nil || proven { // the cursor of the backup
		t.Fatal(proven, err)
	}
	b := l.batch(t, "new", 6, 7)
	if b.Restored == nil || *b.Restored != (Restored{"old", 1, 5}) {
		t.Fatalf("restored: %+v", b.Restored)
	}
	if proven, err := c.Add(b); err != nil || proven || c.Last != 7 || c.StoreID != "new" || !c.Broken {
		t.Fatal(proven, err, c)
	}
	if _, err := c.Add(l.batch(t, "new", 8, 9)); err != nil || c.Last != 9 {
		t.Fatal(err, c)
	}
}

func TestChainRefusesAnotherStore(t *testing.T) {
	l := newRestoredLog(5, 9)
	had := func(first, last int) Chain {
		var c Chain
		if _, err := c.Add(l.batch(t, "old", first, last)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := had(1, 5)
	if _, err := c.Add(l.batch(t, "new", 7, 8)); err == nil {
		t.Error("a new store that does not say where it goes on is taken")
	}
	if _, err := c.Add(l.batch(t, "other", 1, 5)); err == nil {
		t.Error("another store is taken")
	}
	c = had(1, 3)
	if _, err := c.Add(l.batch(t, "new", 6, 8)); err == nil {
		t.Error("records 4 and 5 are missing, and it goes on")
	}
	if c.Last != 3 || c.StoreID != "old" {
		t.Errorf("after an error it is another one: %+v", c)
	}
}
