package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// Settings are what Open needs. All fields are required except FS, Uptime, Delay and OnFatal.
type Settings struct {
	Dir     string                           // the data directory; the database lies in Dir/db
	Now     func() time.Time                 // the wall clock
	Uptime  func() time.Duration             // of the machine, sleep included; nil where nobody says. See Times
	NewID   func() string                    // a store id for a new store
	Log     func(format string, args ...any) // Pebble's errors
	OnFatal func(err error)                  // called once when a write failed: the process has to end
	FS      vfs.FS                           // tests put a crashable file system here
	Delay   func()                           // tests and benchmarks put a slow disk here; runs before each sync
	Stall   time.Duration                    // how long an answer waits for the disk; default 500 ms
	Secret  []byte                           // keys CallDigest and the sum over the rows; not in the database

	Boot      string // identifies the machine's life since it was started; "": not known. See mark
	SealBytes int    // bytes of records in memory before they are sealed; default 8 MiB
	Renew     bool   // do not look at log/head, nor write it before RenewHead is called

	restoring bool // the directory is one that a restore has not finished

	QueuedPerKey int // bytes of commands of one key that may wait to be written; default 32 MiB
	Queued       int // of all keys; default 256 MiB

	MinFree func(total uint64) uint64 // bytes of a disk of that size that stay free; nil: what a flush and a seal need
	Ballast int                       // bytes of files that are kept for a full disk; 0 makes none

	onFlush   func(begins bool) // tests learn when Pebble closes a write-ahead log, with a mutex in its hands
	lookEvery time.Duration     // how often the free bytes are looked at; tests set it

	share      int           // of what a kill or the time ends: how much of it one batch ends; tests set it
	shareEvery time.Duration // between two of them; tests set it
}

// fill sets what is not set.
func (set *Settings) fill() {
	if set.FS == nil {
		set.FS = vfs.Default
	}
	set.Stall = cmp.Or(set.Stall, 500*time.Millisecond)
	set.QueuedPerKey = cmp.Or(set.QueuedPerKey, queuedPerKey)
	set.Queued = cmp.Or(set.Queued, queuedInAll)
	set.SealBytes = cmp.Or(set.SealBytes, sealBytes)
	set.share = cmp.Or(set.share, atOnce)
	set.shareEvery = cmp.Or(set.shareEvery, shareEvery)
	set.lookEvery = cmp.Or(set.lookEvery, lookEvery)
}

// Store is an open store. Its methods are safe for concurrent use.
type Store struct {
	set    Settings
	db     *pebble.DB
	id     string
	keys   keyTable
	kills  killTable
	grants grantTable
	open   openCalls
	seq    *sequencer
	seen   seen

	clock   timekeeper
	gate    tableGate
	records recordLog
	room    *room
	head    headFile
	keeper  *headKeeper
	tidier  *tidier // nil until the file may be written
	cursors cursorTable
	tools   toolTable
	kept    atomic.Uint64 // the first record that retention has left
	roots   rootCache
	past    []life // lives of the log that are over

	callNames sync.Pool // of hash.Hash, for CallDigest

	opened  atomic.Bool // before, a failure is Open's answer
	begun   bool        // a database was there that no start has finished
	closing sync.Once
	closed  error // what Close gave
}

// Open opens or creates the store in set.Dir and brings back all live state. One process at a time: a second one is
// refused.
func Open(set Settings) (*Store, error) {
	set.fill()
	s := &Store{set: set, open: openCalls{by: map[string]*openCall{}, before: map[string]*openCall{}}}
	s.clock = timekeeper{wall: set.Now, up: set.Uptime}
	s.seen.begin()
	s.open.order.begin()
	s.open.ages.begin()
	s.seq = newSequencer(s)
	s.tidier = newTidier(s)
	s.seq.unborn = set.restoring
	fs := disk{FS: set.FS, failed: s.gone, retire: s.records.retire, pass: s.gate.pass, table: s.table, grow: s.grow,
		spare: s.spare}
	s.gate.changed.L = &s.gate.mu
	s.records = recordLog{s: s, fs: fs, dir: dirOf(set.Dir), wake: make(chan struct{}, 1), quit: make(chan struct{}),
		done: make(chan struct{}), room: make(chan struct{}, 1)}
	s.records.spares = spares{fs: fs, raw: set.FS, dir: s.records.ahead(), size: set.SealBytes}
	s.head = headFile{fs: set.FS, path: filepath.Join(s.records.dir, headName), secret: set.Secret}
	s.room = newRoom(s)
	db := filepath.Join(set.Dir, "db")
	err := s.guarded(func() (err error) {
		if err = s.startable(); err != nil {
			return err
		}
		if err = s.room.open(); err != nil {
			return err
		}
		if err = s.known(db); err != nil {
			return err
		}
		if err = s.records.cut(); err != nil {
			return err
		}
		if err = s.records.spares.find(); err != nil {
			return err
		}
		s.db, err = pebble.Open(db, s.options(fs))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", set.Dir, err)
	}
	if err = s.guarded(s.load); err == nil {
		err = s.guarded(s.records.takeRetired)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", set.Dir, err), s.guarded(s.db.Close))
	}
	s.opened.Store(true) // from here on it is OnFatal that learns of a failure
	if err := s.seq.broken(); err != nil {
		return nil, fmt.Errorf("open store in %s: %w", set.Dir, err)
	}
	s.records.start()
	s.room.start()
	s.seq.start()
	s.tidier.start()
	if err := s.redo(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", set.Dir, err), s.Close())
	}
	return s, nil
}

// spare gives a file to write the next write-ahead log over. The first log of a process is a new one: what only looks
// at the store, or writes little, leaves none of a spare's size behind.
func (s *Store) spare() (path string, ok bool) {
	if !s.opened.Load() {
		return "", false
	}
	return s.records.spares.takeSpare()
}

// guarded runs what calls Pebble outside of a commit. When the store fails meanwhile, fn stays where it is for ever and
// the failure is the answer.
func (s *Store) guarded(fn func() error) error {
	if err := s.seq.broken(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-s.seq.dead:
		return s.seq.broken()
	}
}

func (s *Store) load() error {
	if err := s.identify(); err != nil {
		return err
	}
	if err := s.loadRecords(); err != nil {
		return err
	}
	if err := s.loadCursors(); err != nil {
		return err
	}
	if err := s.loadTools(); err != nil {
		return err
	}
	if err := s.loadKept(); err != nil {
		return err
	}
	if err := s.loadState(); err != nil || s.set.Renew {
		return err
	}
	return s.startHead()
}

// identify reads the store's id, or makes one for a new store.
func (s *Store) identify() error {
	id, found, err := s.get(keyStr(prefixMeta, "store"))
	if err != nil {
		return err
	}
	if !found {
		if left, err := s.leftOf(false); err != nil || left != "" {
			return errors.Join(err, fmt.Errorf("the database in %s names no store, and %s is there: a part of the "+
				"directory is missing; put it back from where it was saved", filepath.Join(s.set.Dir, "db"), left))
		}
		if s.id = s.set.NewID(); s.id == "" {
			return errNoStore
		}
		b := s.db.NewBatch()
		defer b.Close()
		if err := errors.Join(b.Set(keyStr(prefixMeta, "store"), []byte(s.id), nil),
			b.Set(keyStr(prefixMeta, "format"), []byte(layoutVersion), nil)); err != nil {
			return err
		}
		if err := b.Commit(pebble.Sync); err != nil || !s.begun {
			return err
		}
		return s.db.Flush() // which writes to the manifest: until then Pebble's checkpoint does not find all of it
	}
	s.id = string(id)
	format, _, err := s.get(keyStr(prefixMeta, "format"))
	if err == nil && string(format) != layoutVersion {
		err = s.foreign(string(format))
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

// Close waits for what is being written and closes the database. Commit must not be called any more. Calling it once
// more changes nothing, and gives what the first call gave.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Store) close() error {
	err := s.guarded(func() error {
		s.tidier.close()
		s.room.close()
		s.seq.close()
		var err error
		if s.keeper != nil {
			err = s.keeper.close()
		}
		err = errors.Join(err, s.records.close(len(s.seq.unseen) > 0))
		if err := s.seq.broken(); err != nil {
			return err
		}
		s.room.end()
		s.gate.end()
		return errors.Join(err, s.db.Close())
	})
	if broken := s.seq.broken(); broken != nil {
		return fmt.Errorf("the store has failed and was left as it is: %w", broken)
	}
	return err
}

// Healthy is nil while the store takes writes; else it says why not.
func (s *Store) Healthy() error { return s.seq.healthy() }

// Seq is the number of records so far.
func (s *Store) Seq() uint64 { return s.seq.size.Load() }

// logger receives Pebble's messages.
type logger struct{ s *Store }

func (l logger) Infof(string, ...any) {}
func (l logger) Errorf(format string, args ...any) {
	l.s.set.Log("store: "+format, args...)
}

// Fatalf does not return: Pebble counts on that. If it went on, it would tell a failed commit's caller that all is
// well, and delete files that a manifest it could not write still names.
func (l logger) Fatalf(format string, args ...any) { l.s.gone(fmt.Errorf("store: "+format, args...)) }

// gone ends the store and never returns: refusals go out on other goroutines, and then the process ends.
func (s *Store) gone(err error) {
	s.fatal(err)
	select {}
}

// fatal ends all waiting with a refusal and tells the process to end.
func (s *Store) fatal(err error) {
	s.seq.fail(err)
	if s.opened.Load() && s.set.OnFatal != nil {
		s.set.OnFatal(err)
	}
}

func unavailable(err error) *sdk.Error {
	return &sdk.Error{Code: sdk.CodeAuditUnavailable, Op: "commit",
		Msg: "nothing can be recorded at the moment, so nothing is permitted", Err: err}
}

// keyTable holds all API keys in memory, tombstones too.
type keyTable struct {
	mu    sync.RWMutex
	byID  map[string]*Key
	names map[string]string // live name → id
}

// loadRecords reads the log, and holds its end against the state: they are written together.
func (s *Store) loadRecords() error {
	var err error
	if s.records.own, err = s.loadLives(); err != nil {
		return err
	}
	if err := s.records.load(); err != nil {
		return err
	}
	m, found, err := s.records.readMark()
	if err != nil {
		return err
	}
	switch path := filepath.Join(s.records.dir, markName); {
	case found && m.Store != s.id:
		return fmt.Errorf("%s is that of store %s, this is store %s: put the directory back from where it was saved", path,
			m.Store, s.id)
	case found && m.Released > s.records.last:
		return fmt.Errorf("the log ends with commit %d, and %s says that answers up to commit %d have left since the "+
			"machine was started: its end is missing; put the directory back from where it was saved", s.records.last, path,
			m.Released)
	}
	s.seq.size.Store(s.seq.tree.Size())
	s.seq.number = s.records.last
	if !s.set.Renew {
		if err := s.checkHead(); err != nil {
			return err
		}
	}
	last, _, err := s.commitOf()
	if err == nil && last != s.records.last {
		err = fmt.Errorf("the state in %s is that of commit %d, the log ends with commit %d: one of them is not of this time",
			filepath.Join(s.set.Dir, "db"), last, s.records.last)
	}
	if err != nil {
		return err
	}
	if err := s.startClock(); err != nil {
		return err
	}
	if err := s.records.list.Sweep(); err != nil {
		return err
	}
	return s.records.openMark()
}

// number is a number that the store keeps of itself, 0 where there is none.
func (s *Store) number(name string) (uint64, error) {
	v, found, err := s.get(keyStr(prefixMeta, name))
	switch {
	case err != nil || !found:
		return 0, err
	case len(v) != 8:
		return 0, fmt.Errorf("its %s has %d bytes, expected 8", name, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}
