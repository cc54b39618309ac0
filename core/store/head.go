package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"
)

// head is how far the log had come, in a file of its own: log/head. A log and a state that are both of an earlier time
// fit each other; only what lies outside of both shows it. The file is synced once a second while records come, before
// the answer to a kill or a revoke leaves, and at a stop. So a start sees a log that ends too early, but for what came
// in the last second before a crash. Whoever puts the whole directory back to an earlier time puts this file back too.
type head struct {
	Writes uint64 // of the file
	Clock  clockState
	Epoch  uint32
	Clean  bool // written at a stop: nothing came behind it
	Commit uint64
	Size   uint64 // records
	Root   tlog.Hash
	Store  string
	Boot   [16]byte // of the machine's life that it was written in
}

// The file has two places that are written in turn: what a crash leaves half written is one of them.
const (
	headName  = "head"
	headMagic = "yetthed2"
	headFirst = "yetthed1" // it has no Boot, and of Clock the time alone
	headPlace = 4096       // bytes from one to the next
	headSize  = 512
	headBoot  = headSize - sha256.Size - 16 - 5*8 // where Boot is, and behind it what else Clock has
	headEvery = time.Second
)

func headMAC(secret, b []byte) []byte {
	m := hmac.New(sha256.New, append([]byte("yett head 1\x00"), secret...))
	m.Write(b)
	return m.Sum(nil)
}

func (h *head) put(secret []byte) []byte {
	b := make([]byte, headSize)
	copy(b, headMagic)
	binary.BigEndian.PutUint64(b[8:], h.Writes)
	binary.BigEndian.PutUint64(b[16:], uint64(h.Clock.Now.UnixNano()))
	binary.BigEndian.PutUint32(b[24:], h.Epoch)
	if h.Clean {
		b[28] = 1
	}
	binary.BigEndian.PutUint64(b[32:], h.Commit)
	binary.BigEndian.PutUint64(b[40:], h.Size)
	if h.Clock.Said {
		b[29] = 1
	}
	copy(b[48:], h.Root[:])
	b[80] = byte(copy(b[81:headBoot], h.Store))
	copy(b[headBoot:], h.Boot[:])
	since := int64(0)
	if !h.Clock.Since.IsZero() {
		since = h.Clock.Since.UnixNano()
	}
	for i, n := range []int64{int64(h.Clock.Up), since, int64(h.Clock.Held), int64(h.Clock.Ahead), int64(h.Clock.Lead)} {
		binary.BigEndian.PutUint64(b[headBoot+len(h.Boot)+8*i:], uint64(n))
	}
	copy(b[headSize-sha256.Size:], headMAC(secret, b[:headSize-sha256.Size]))
	return b
}

// parseHead gives what is in one place; ok is false where nothing whole is.
func parseHead(b, secret []byte) (h head, ok bool) {
	if len(b) != headSize || string(b[:8]) != headMagic && string(b[:8]) != headFirst ||
		!hmac.Equal(b[headSize-sha256.Size:], headMAC(secret, b[:headSize-sha256.Size])) {
		return h, false
	}
	h = head{Writes: binary.BigEndian.Uint64(b[8:]),
		Epoch: binary.BigEndian.Uint32(b[24:]), Clean: b[28] == 1, Commit: binary.BigEndian.Uint64(b[32:]),
		Size: binary.BigEndian.Uint64(b[40:]), Root: tlog.Hash(b[48:]), Store: string(b[81 : 81+int(b[80])]),
		Clock: clockState{Now: time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))).UTC()}}
	if string(b[:8]) == headFirst {
		return h, true
	}
	rest := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[headBoot+len(h.Boot)+8*i:])) }
	h.Boot, h.Clock.Up, h.Clock.Held = [16]byte(b[headBoot:]), time.Duration(rest(0)), time.Duration(rest(2))
	h.Clock.Ahead, h.Clock.Lead, h.Clock.Said = time.Duration(rest(3)), time.Duration(rest(4)), b[29] == 1
	if since := rest(1); since != 0 {
		h.Clock.Since = time.Unix(0, since).UTC()
	}
	return h, true
}

// headFile is the file.
type headFile struct {
	fs     vfs.FS
	path   string
	secret []byte

	mu   sync.Mutex
	f    vfs.File
	last head
}

// read gives what the file says; found is false where there is none.
func (f *headFile) read() (h head, found bool, err error) {
	in, err := f.fs.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	data, err := io.ReadAll(io.LimitReader(in, headPlace+headSize))
	if err = errors.Join(err, in.Close()); err != nil {
		return h, false, err
	}
	for at := 0; at+headSize <= len(data); at += headPlace {
		if one, ok := parseHead(data[at:at+headSize], f.secret); ok && (!found || one.Writes > h.Writes) {
			h, found = one, true
		}
	}
	if !found {
		err = fmt.Errorf("%s is damaged, or the file pepper is not this store's: %s", f.path, renewIt)
	}
	f.last = h
	return h, found, err
}

// renewIt is what to do where the file cannot say how far the log was.
const renewIt = "put the directory back from where it was saved; or, if the log is whole to your knowledge, " +
	"run yett store check --renew"

// open makes the file where there is none, and writes h to it.
func (f *headFile) open(h head) error {
	if _, err := f.fs.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		if err := f.create(h); err != nil {
			return err
		}
	}
	file, err := f.fs.OpenReadWrite(f.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	f.f = file
	return f.write(h)
}

// create makes the file, whole.
func (f *headFile) create(h head) error {
	tmp := f.path + ".tmp"
	out, err := f.fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	b := make([]byte, headPlace+headSize)
	h.Writes = 1
	copy(b[headPlace:], h.put(f.secret))
	_, err = out.Write(b)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := f.fs.Rename(tmp, f.path); err != nil {
		return err
	}
	f.last.Writes = h.Writes
	return syncDir(f.fs, filepath.Dir(f.path))
}

// write says how far the log is, and is on disk when it returns.
func (f *headFile) write(h head) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.Writes = f.last.Writes + 1
	if _, err := f.f.WriteAt(h.put(f.secret), int64(h.Writes%2)*headPlace); err != nil {
		return err
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	f.last = h
	return nil
}

// checkMark refuses a start if the process has ended, the machine has not, and the mark of this life of the machine is
// not found: then somebody may have cut the end off the log, and nobody would know. It runs before anything changes the
// store, so that the operator can put the mark back.
func (s *Store) checkMark(found bool) error {
	if found || s.set.Renew || s.set.Boot == "" {
		return nil
	}
	h, known, err := s.head.read()
	if err != nil || !known || h.Clean || h.Boot != bootOf(s.set.Boot) {
		return nil // checkHead says what is wrong with it
	}
	path := filepath.Join(s.records.dir, markName)
	data, _, err := readAll(s.set.FS, path)
	if err != nil {
		return err
	}
	if m, err := parseMark(data); err == nil && m.Boot == bootOf("") {
		return nil // of a process to which nobody said which life of the machine it was
	}
	return fmt.Errorf("%s is missing, or it is of an earlier time. The gateway wrote it and %s after the machine was "+
		"started; without it nobody knows whether the end of the log is whole: %s", path, s.head.path, renewIt)
}

// checkHead holds the log against what log/head says.
func (s *Store) checkHead() error {
	l := &s.records
	h, found, err := s.head.read()
	switch {
	case err != nil:
		return err
	case !found && l.last == 0 && len(l.list.Infos()) == 0: // a new store
		return nil
	case !found:
		return fmt.Errorf("%s is missing, so nobody knows whether the log is whole: %s", s.head.path, renewIt)
	case h.Store != s.id || h.Epoch != l.own.Epoch:
		return fmt.Errorf("%s is that of store %s, this is store %s", s.head.path, h.Store, s.id)
	case h.Commit > l.last || h.Size > s.seq.tree.Size():
		return fmt.Errorf("the log ends with record %d (commit %d), and %s knows of record %d (commit %d): its end is "+
			"missing, or the directory is partly that of an earlier time; put the whole of it back from where it was saved",
			s.seq.tree.Size(), l.last, s.head.path, h.Size, h.Commit)
	}
	trimmed := len(l.sealed) > 0 && h.Size < l.sealed[0].FirstSeq-1 // and what would prove it has gone with the records
	if h.Size == s.seq.tree.Size() && h.Root == s.seq.tree.Root() {
		return nil // as after every stop
	}
	if root, err := s.Root(h.Size); !trimmed && err != nil {
		return err
	} else if !trimmed && root != h.Root {
		return fmt.Errorf("the first %d records are not those that %s knows of: the log is another one", h.Size, s.head.path)
	}
	if h.Clean && h.Commit < l.last {
		s.set.Log("store: %s is that of an earlier time: it knows of record %d, the log goes on to record %d; the log counts",
			s.head.path, h.Size, s.seq.tree.Size())
	}
	return nil
}

// headNow is how far the log is on disk and seen.
func (s *Store) headNow(clean bool) head {
	l := &s.records
	l.mu.RLock()
	defer l.mu.RUnlock()
	clock := s.clock.state()
	clock.Said = s.seq.doubted.Load()
	return head{Clock: clock, Boot: bootOf(s.set.Boot), Epoch: l.own.Epoch, Clean: clean, Commit: l.last,
		Size: l.edge.Size(), Root: l.edge.Root(), Store: s.id}
}

// headKeeper writes log/head while the store is open.
type headKeeper struct {
	s    *Store
	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	written chan struct{} // closed, and made anew, when a commit is in the file
	commit  uint64        // the newest one that is
}

func newHeadKeeper(s *Store) *headKeeper {
	return &headKeeper{s: s, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		written: make(chan struct{})}
}

// run writes the file once a second, and when it is asked to.
func (k *headKeeper) run() {
	defer close(k.done)
	tick := time.NewTicker(headEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-k.wake:
		case <-k.quit:
			return
		case <-k.s.seq.dead:
			return
		}
		if err := k.save(false); err != nil {
			k.s.fatal(fmt.Errorf("write %s: %w", k.s.head.path, err))
			return
		}
	}
}

// save writes the file if it is not up to date.
func (k *headKeeper) save(clean bool) error {
	at := k.s.set.Now()
	h := k.s.headNow(clean)
	if last := k.s.head.last; last.Commit != h.Commit || last.Clean != clean {
		if err := k.s.head.write(h); err != nil {
			return err
		}
	}
	k.s.seen.covered(h.Commit, at)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.commit = h.Commit
	close(k.written)
	k.written = make(chan struct{})
	return nil
}

// waitFor returns when a commit is in the file, or the disk has stalled or failed: what it holds is in the log then,
// and only the file is behind.
func (k *headKeeper) waitFor(commit uint64) {
	late := time.NewTimer(k.s.set.Stall)
	defer late.Stop()
	for {
		k.mu.Lock()
		there, written := k.commit >= commit, k.written
		k.mu.Unlock()
		if there {
			return
		}
		select {
		case k.wake <- struct{}{}:
		default:
		}
		select {
		case <-written:
		case <-late.C:
			return
		case <-k.s.seq.dead:
			return
		case <-k.done:
			return
		}
	}
}

// close writes the file for the last time.
func (k *headKeeper) close() error {
	close(k.quit)
	<-k.done
	if k.s.seq.broken() != nil {
		return nil
	}
	return errors.Join(k.save(true), k.s.head.f.Close())
}

// RenewHead writes log/head as the log is, for a store that was opened with Settings.Renew, when somebody has checked
// the log.
func (s *Store) RenewHead() error {
	if err := s.Commit(context.Background(), renewMark{}); err != nil {
		return err
	}
	return s.guarded(s.startHead)
}

func (s *Store) startHead() error {
	if err := s.head.open(s.headNow(false)); err != nil {
		return err
	}
	s.keeper = newHeadKeeper(s)
	go s.keeper.run()
	return nil
}

// InHead brings log/head up to date, and is how many records it knows of: a start notices when they are missing.
func (s *Store) InHead() uint64 {
	if s.keeper != nil {
		s.keeper.waitFor(s.headNow(false).Commit)
	}
	s.head.mu.Lock()
	defer s.head.mu.Unlock()
	return s.head.last.Size
}
