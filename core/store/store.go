package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/audit"
	"github.com/yett-dev/yett/sdk"
)

// Settings are what Open needs. All fields are required except FS, Delay and OnFatal.
type Settings struct {
	Dir     string                           // the data directory; the database lies in Dir/db
	Now     func() time.Time                 // the clock
	NewID   func() string                    // a store id for a new store
	Log     func(format string, args ...any) // Pebble's errors
	OnFatal func(err error)                  // called once when a write failed: the process has to end
	FS      vfs.FS                           // tests put a crashable file system here
	Delay   func()                           // tests and benchmarks put a slow disk here; runs before each sync
	Stall   time.Duration                    // how long an answer waits for the disk; default 500 ms
}

// Store is an open store. Its methods are safe for concurrent use.
type Store struct {
	set  Settings
	db   *pebble.DB
	id   string
	keys keyTable
	seq  *sequencer
}

// Open opens or creates the store in set.Dir and brings back all live state. One process at a time: a second one is refused.
func Open(set Settings) (*Store, error) {
	if set.FS == nil {
		set.FS = vfs.Default
	}
	if set.Stall == 0 {
		set.Stall = 500 * time.Millisecond
	}
	s := &Store{set: set}
	opts := &pebble.Options{
		FS:                 set.FS,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             logger{s},
	}
	db, err := pebble.Open(filepath.Join(set.Dir, "db"), opts)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", set.Dir, err)
	}
	s.db = db
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", set.Dir, err), db.Close())
	}
	s.seq.start()
	return s, nil
}

func (s *Store) load() error {
	if err := s.identify(); err != nil {
		return err
	}
	if err := s.loadKeys(); err != nil {
		return err
	}
	tree, err := s.loadTree()
	if err != nil {
		return err
	}
	s.seq = newSequencer(s, tree)
	return s.loadDefers(s.seq.state)
}

// identify reads the store's id, or makes one for a new store.
func (s *Store) identify() error {
	id, found, err := s.get(keyStr(prefixMeta, "store"))
	if err != nil {
		return err
	}
	if !found {
		s.id = s.set.NewID()
		b := s.db.NewBatch()
		defer b.Close()
		if err := errors.Join(b.Set(keyStr(prefixMeta, "store"), []byte(s.id), nil), b.Set(keyStr(prefixMeta, "format"), []byte(layoutVersion), nil)); err != nil {
			return err
		}
		return b.Commit(pebble.Sync)
	}
	s.id = string(id)
	format, _, err := s.get(keyStr(prefixMeta, "format"))
	if err == nil && string(format) != layoutVersion {
		err = fmt.Errorf("its layout is version %q, this program knows %q", format, layoutVersion)
	}
	return err
}

func (s *Store) get(key []byte) (value []byte, found bool, err error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read store: %w", err)
	}
	value = append([]byte(nil), v...)
	return value, true, closer.Close()
}

// scan calls fn for every row with the prefix, in order. Key and value are only valid during the call.
func (s *Store) scan(prefix byte, fn func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: upper(prefix)})
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	for it.First(); it.Valid(); it.Next() {
		if err := fn(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// ID identifies the store in every record.
func (s *Store) ID() string { return s.id }

// Close waits for what is being written and closes the database. Commit must not be called any more.
func (s *Store) Close() error {
	s.seq.close()
	if err := s.seq.broken(); err != nil {
		return fmt.Errorf("the store has failed and was left as it is: %w", err)
	}
	return s.db.Close()
}

// Healthy is nil while the store takes writes; else it says why not.
func (s *Store) Healthy() error { return s.seq.healthy() }

// Seq is the number of records so far.
func (s *Store) Seq() uint64 { return s.seq.size.Load() }

// logger receives Pebble's messages. Pebble calls Fatalf when it cannot go on: then neither can we.
type logger struct{ s *Store }

func (l logger) Infof(string, ...any) {}
func (l logger) Errorf(format string, args ...any) {
	l.s.set.Log("store: "+format, args...)
}
func (l logger) Fatalf(format string, args ...any) {
	l.s.fatal(fmt.Errorf("store: "+format, args...))
}

// fatal ends all waiting with a refusal and tells the process to end.
func (s *Store) fatal(err error) {
	if s.seq != nil {
		s.seq.fail(err)
	}
	if s.set.OnFatal != nil {
		s.set.OnFatal(err)
	}
}

func unavailable(err error) *sdk.Error {
	return &sdk.Error{Code: sdk.CodeAuditUnavailable, Op: "commit", Msg: "nothing can be recorded at the moment, so nothing is permitted", Err: err}
}

// keyTable holds all API keys in memory, tombstones too.
type keyTable struct {
	mu    sync.RWMutex
	byID  map[string]*Key
	names map[string]string // live name → id
}

// loadTree finds the end of the log and rebuilds the tree's right edge.
func (s *Store) loadTree() (*audit.Tree, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRecords}, UpperBound: upper(prefixRecords)})
	if err != nil {
		return nil, err
	}
	size := uint64(0)
	if it.Last() {
		first, count, err := groupOf(it.Key(), it.Value())
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		size = first + count - 1
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, err
	}
	return audit.Resume(size, hashReader{s})
}
