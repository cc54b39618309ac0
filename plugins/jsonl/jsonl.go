package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

// sink is the subscriber. Its mutex is held for a whole batch: batches come one at a time.
type sink struct {
	disk disk
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex
	set     settings
	lock    *lock // taken with the first batch: at a reload the process before this one may still write
	records *journal
	roots   *journal  // nil: no completeness
	acked   position  // what the host knows to be taken in, by this process
	again   bool      // the batch gives numbers again that are in the file
	trimmed time.Time // when rotated files were last looked at for their age
	closed  bool
	in      plugin.Settings
}

func newSink() *sink {
	return &sink{disk: osDisk{}, now: time.Now, wait: func(ctx context.Context, d time.Duration) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

func newPlugin() plugin.Subscriber {
	s := newSink()
	return plugin.Subscriber{
		Info: plugin.Info{
			Name: "jsonl", Version: "1.0.0", Description: "appends the audit log to a rotating file of JSON lines",
			ConfigSchema: schema, ExampleConfig: `{"path": "audit.jsonl"}`,
		},
		Validate:  func(_ context.Context, in plugin.Settings) error { _, err := read(in); return err },
		Configure: func(_ context.Context, in plugin.Settings) error { return s.configure(in) },
		Consume:   s.consume,
		Close:     func(context.Context) error { return s.close() },
	}
}

func (s *sink) configure(in plugin.Settings) error {
	set, err := read(in)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(set.path) && in.Log != nil {
		in.Log.Warn("path is relative: the file lies in the plugin's working directory, which is removed when the "+
			"plugin ends", "path", set.path)
	}
	if set.path, err = filepath.Abs(set.path); err != nil {
		return plugin.Problem{Field: "/path", Message: err.Error()}
	}
	if info, err := os.Stat(filepath.Dir(set.path)); err != nil || !info.IsDir() {
		return plugin.Problem{Field: "/path", Message: "its folder is not there, or cannot be reached by the plugin's user"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set, s.in = set, in
	s.records = s.journal(set.path)
	if set.completeness != "off" {
		ext := filepath.Ext(set.path)
		s.roots = s.journal(strings.TrimSuffix(set.path, ext) + ".roots" + ext)
	}
	return nil
}

func (s *sink) journal(path string) *journal {
	return &journal{disk: s.disk, log: s.in.Log, now: s.now, path: path, mode: s.set.mode,
		maxBytes: s.set.maxBytes, maxFiles: s.set.maxFiles, maxAge: s.set.maxAge, cutTo: -1}
}

// pause is the time between two tries of a write.
const pause = time.Second

// consume writes a batch. nil means that all of it is on disk.
func (s *sink) consume(ctx context.Context, b *plugin.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.records == nil {
		return errors.New("the plugin is not configured, or is closing")
	}
	if err := inOrder(b); err != nil {
		return err
	}
	until := s.now().Add(s.set.retryFor)
	for logged := false; ; {
		bad, err := s.write(b)
		if err == nil {
			if bad != nil {
				s.acked = position{b.StoreID, bad.Seq - 1}
				return bad
			}
			s.acked = position{b.StoreID, b.Last}
			return nil
		}
		s.acked = position{}
		if !logged {
			s.in.Log.Error("a batch cannot be written", "first_seq", b.First, "last_seq", b.Last, "error", err.Error())
			logged = true
		}
		if !s.now().Add(pause).Before(until) || s.wait(ctx, pause) != nil {
			return err
		}
	}
}

// inOrder refuses what would be taken for a duplicate and dropped.
func inOrder(b *plugin.Batch) error {
	if b.StoreID == "" {
		return errors.New("a batch without a store id")
	}
	last := uint64(0)
	for _, r := range b.Records {
		if r.Seq <= last {
			return fmt.Errorf("record %d comes behind %d: the batch is out of order", r.Seq, last)
		}
		last = r.Seq
	}
	return nil
}

// write does the work of consume, once. The RecordError is about the first record that cannot be written whatever the
// disk says; those before it are on disk then.
func (s *sink) write(b *plugin.Batch) (*plugin.RecordError, error) {
	if s.lock == nil {
		l, err := takeLock(s.set.path)
		if err != nil {
			return nil, err
		}
		s.lock = l
	}
	j := s.records
	if err := j.ready(); err != nil {
		return nil, err
	}
	if b.Replay && (s.acked.store != b.StoreID || b.First <= s.acked.seq) {
		// The host goes back on purpose: what is there already is wanted again.
		mark := line(marker{Type: typeReplay, StoreID: b.StoreID, First: max(b.First, 1)})
		if err := j.add(mark, position{b.StoreID, max(b.First, 1) - 1}); err != nil {
			return nil, err
		}
	}
	bad, err := s.addRecords(b)
	if err == nil {
		err = j.sync()
	}
	if err == nil && bad == nil && s.roots != nil {
		err = s.addRoot(b)
	}
	if err == nil {
		s.trimByAge()
	}
	return bad, err
}

// trimByAge looks for rotated files that max_age ends, also while nothing is rotated because little is written.
func (s *sink) trimByAge() {
	now := s.now()
	if s.set.maxAge == 0 || now.Sub(s.trimmed) < trimEvery {
		return
	}
	s.trimmed = now
	for _, j := range []*journal{s.records, s.roots} {
		if j != nil {
			j.trim()
		}
	}
}

// trimEvery is how often that is done.
const trimEvery = time.Minute

func (s *sink) addRecords(b *plugin.Batch) (*plugin.RecordError, error) {
	j, gap := s.records, b.Gap
	s.again = false
	gapBefore := func(seq uint64) error {
		if gap == nil || gap.First > seq {
			return nil
		}
		g := gap
		gap = nil
		if j.last.store == b.StoreID && g.Last <= j.last.seq {
			return nil
		}
		return j.add(line(marker{Type: typeGap, StoreID: b.StoreID, First: g.First, Last: g.Last, Reason: g.Reason}),
			position{b.StoreID, g.Last})
	}
	for i := range b.Records {
		r := &b.Records[i]
		if err := gapBefore(r.Seq); err != nil {
			return nil, err
		}
		before := j.last.store == b.StoreID && r.Seq <= j.last.seq
		if before && !newer(r, j.lastAt) {
			continue // came before
		}
		text, at, err := recordLine(b.StoreID, r)
		if err != nil {
			return &plugin.RecordError{Seq: r.Seq, Err: err}, nil
		}
		if before {
			s.in.Log.Warn("the log gives numbers again that are in the file: its store was put back to an older copy, or the "+
				"clock was", "seq", r.Seq, "last_seq", j.last.seq)
			s.again = true
			mark := line(marker{Type: typeReplay, StoreID: b.StoreID, First: r.Seq, Reason: reasonNewer})
			if err := j.add(mark, position{b.StoreID, r.Seq - 1}); err != nil {
				return nil, err
			}
		}
		if err := j.add(text, position{b.StoreID, r.Seq}); err != nil {
			return nil, err
		}
		j.lastAt = at
	}
	return nil, gapBefore(^uint64(0))
}

// reasonNewer stands in the line before such records.
const reasonNewer = "made later than the last record before"

// newer says that a record was made after the last one in the file, although the file goes beyond its number. It is no
// copy of what is there, then: a store that was put back to an older copy gives the same numbers to other records.
func newer(r *plugin.Record, last time.Time) bool {
	var head struct {
		At string `json:"timestamp"`
	}
	return !last.IsZero() && json.Unmarshal(r.JSON, &head) == nil && timeOf(head.At).After(last)
}

func (s *sink) addRoot(b *plugin.Batch) error {
	if err := s.roots.ready(); err != nil {
		return err
	}
	if last := s.roots.last; last.store == b.StoreID && b.Last <= last.seq && !b.Replay && !s.again {
		return nil
	}
	m := marker{Type: typeRoot, StoreID: b.StoreID, First: b.First, Last: b.Last, Root: hex.EncodeToString(b.Root[:])}
	if s.set.completeness == "leaves" {
		for i := range b.Records {
			m.Leaves = append(m.Leaves, leaf{b.Records[i].Seq, hex.EncodeToString(b.Records[i].Leaf[:])})
		}
	}
	if err := s.roots.add(line(m), position{b.StoreID, b.Last}); err != nil {
		return err
	}
	return s.roots.sync()
}

// marker is a line that is no record.
type marker struct {
	Type    string `json:"type"`
	StoreID string `json:"store_id"`
	First   uint64 `json:"first_seq"`
	Last    uint64 `json:"last_seq,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Root    string `json:"tree_root,omitempty"`
	Leaves  []leaf `json:"leaves,omitempty"`
}

type leaf struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

func line(m marker) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		return nil // strings and numbers always marshal
	}
	return append(text, '\n')
}

func (s *sink) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var err error
	for _, j := range []*journal{s.records, s.roots} {
		if j != nil {
			err = errors.Join(err, j.close())
		}
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.unlock())
		s.lock = nil
	}
	return err
}
