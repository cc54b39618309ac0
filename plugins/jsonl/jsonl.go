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

// config is what operators write.
type config struct {
	Path         string `json:"path"`
	Mode         string `json:"mode"`
	MaxBytes     int64  `json:"max_bytes"`
	MaxFiles     *int   `json:"max_files"`
	MaxAge       string `json:"max_age"`
	Completeness string `json:"completeness"`
	RetryFor     string `json:"retry_for"`
}

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "the file that is appended to; its folder must exist"},
    "mode": {"enum": ["0600", "0640"], "default": "0600"},
    "max_bytes": {"type": "integer", "minimum": 4096, "maximum": 1099511627776, "default": 104857600, "description": "a file is rotated before it grows beyond this"},
    "max_files": {"type": "integer", "minimum": 0, "maximum": 100000, "default": 100, "description": "rotated files that are kept; 0 keeps all"},
    "max_age": {"type": "string", "maxLength": 32, "default": "", "description": "rotated files older than this are removed, such as 2160h; empty keeps them"},
    "completeness": {"enum": ["off", "roots", "leaves"], "default": "off", "description": "write a second file with the log's tree root of each batch, and the leaf hash of each record"},
    "retry_for": {"type": "string", "maxLength": 32, "default": "20s", "description": "how long a write that fails is tried again before the batch is given back; at most 25s"}
  }
}`

// settings are a config that holds.
type settings struct {
	path         string
	mode         os.FileMode
	maxBytes     int64
	maxFiles     int
	maxAge       time.Duration
	completeness string
	retryFor     time.Duration
}

// read checks the settings without touching anything.
func read(s plugin.Settings) (settings, error) {
	c := config{Mode: "0600", MaxBytes: 100 << 20, Completeness: "off", RetryFor: "20s"}
	if err := s.Decode(&c); err != nil {
		return settings{}, err
	}
	out := settings{path: c.Path, mode: 0o600, maxBytes: c.MaxBytes, maxFiles: 100, completeness: c.Completeness}
	var problems plugin.Problems
	wrong := func(field, message string) {
		problems = append(problems, plugin.Problem{Field: field, Message: message})
	}
	if base := filepath.Base(c.Path); c.Path == "" || strings.HasSuffix(c.Path, "/") || base == "." || base == ".." {
		wrong("/path", "must name a file")
	}
	switch c.Mode {
	case "0600":
	case "0640":
		out.mode = 0o640
	default:
		wrong("/mode", "must be 0600 or 0640")
	}
	if c.MaxBytes < 4096 || c.MaxBytes > 1<<40 {
		wrong("/max_bytes", "must be 4096 to 1099511627776")
	}
	if c.MaxFiles != nil {
		if out.maxFiles = *c.MaxFiles; out.maxFiles < 0 || out.maxFiles > 100_000 {
			wrong("/max_files", "must be 0 to 100000")
		}
	}
	if c.Completeness != "off" && c.Completeness != "roots" && c.Completeness != "leaves" {
		wrong("/completeness", "must be off, roots or leaves")
	}
	var err error
	if c.MaxAge != "" {
		if out.maxAge, err = time.ParseDuration(c.MaxAge); err != nil || out.maxAge < time.Minute {
			wrong("/max_age", "must be a duration of a minute or more, such as 2160h")
		}
	}
	if out.retryFor, err = time.ParseDuration(c.RetryFor); err != nil || out.retryFor < 0 || out.retryFor > 25*time.Second {
		wrong("/retry_for", "must be a duration of 0s to 25s")
	}
	if problems != nil {
		return settings{}, problems
	}
	return out, nil
}

// sink is the subscriber. Its mutex is held for a whole batch: batches come one at a time.
type sink struct {
	disk disk
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex
	set     settings
	lock    *lock // taken with the first batch: at a reload the process before this one may still write
	records *journal
	roots   *journal // nil: no completeness
	acked   position // what the host knows to be taken in, by this process
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
	if err != nil || bad != nil || s.roots == nil {
		return bad, err
	}
	return nil, s.addRoot(b)
}

func (s *sink) addRecords(b *plugin.Batch) (*plugin.RecordError, error) {
	j, gap := s.records, b.Gap
	gapBefore := func(seq uint64) error {
		if gap == nil || gap.First > seq {
			return nil
		}
		g := gap
		gap = nil
		if j.last.store == b.StoreID && g.Last <= j.last.seq {
			return nil
		}
		return j.add(line(marker{Type: typeGap, StoreID: b.StoreID, First: g.First, Last: g.Last, Reason: g.Reason}), position{b.StoreID, g.Last})
	}
	for i := range b.Records {
		r := &b.Records[i]
		if err := gapBefore(r.Seq); err != nil {
			return nil, err
		}
		if j.last.store == b.StoreID && r.Seq <= j.last.seq {
			continue // came before
		}
		text, err := recordLine(b.StoreID, r)
		if err != nil {
			return &plugin.RecordError{Seq: r.Seq, Err: err}, nil
		}
		if err := j.add(text, position{b.StoreID, r.Seq}); err != nil {
			return nil, err
		}
	}
	return nil, gapBefore(^uint64(0))
}

func (s *sink) addRoot(b *plugin.Batch) error {
	if err := s.roots.ready(); err != nil {
		return err
	}
	if last := s.roots.last; last.store == b.StoreID && b.Last <= last.seq && !b.Replay {
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
