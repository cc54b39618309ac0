package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log"
)

// mark is a small file that is written before answers leave, and not synced: it survives the end of the process, and
// not that of the machine. It says how far the log is on disk, and how far the answers of its commits have left. What
// was refused because the disk stood still, and landed all the same, is taken back by the next commit. Where the
// process ends before that, the next start finds it by the mark and cuts it off, so that nothing stands that nobody was
// given.
type mark struct {
	Boot     [16]byte // of the machine's life that it was written in
	Store    string
	Epoch    uint32
	Synced   uint64 // the newest commit that is on disk
	Released uint64 // the newest one whose answers, or what takes it back, may have left
	Kept     bool   // it is synced, by a stop, and counts in every life of the machine
}

const (
	markName  = "mark"
	markMagic = "yettmrk1"
	markSize  = 256
	markKept  = markSize - 5 // where Kept is
)

// bootOf is how a mark names a life of the machine.
func bootOf(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:])
}

func (m *mark) salt() log.Salt { return log.NewSalt(m.Store, m.Epoch) }

// put writes the mark into b, which has markSize bytes.
func (m *mark) put(b []byte, salt log.Salt) {
	copy(b, markMagic)
	copy(b[8:], m.Boot[:])
	binary.BigEndian.PutUint64(b[24:], m.Synced)
	binary.BigEndian.PutUint64(b[32:], m.Released)
	binary.BigEndian.PutUint32(b[40:], m.Epoch)
	b[44] = byte(copy(b[45:markKept], m.Store))
	if b[markKept] = 0; m.Kept {
		b[markKept] = 1
	}
	binary.BigEndian.PutUint32(b[markSize-4:], salt.Sum(b[:markSize-4]))
}

func parseMark(b []byte) (m mark, err error) {
	if len(b) != markSize || string(b[:8]) != markMagic || int(b[44]) > markKept-45 {
		return m, errors.New("it is no mark")
	}
	m.Boot = [16]byte(b[8:])
	m.Synced, m.Released = binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:])
	m.Epoch, m.Store, m.Kept = binary.BigEndian.Uint32(b[40:]), string(b[45:45+int(b[44])]), b[markKept] == 1
	if m.salt().Sum(b[:markSize-4]) != binary.BigEndian.Uint32(b[markSize-4:]) {
		return m, errors.New("it has a wrong checksum")
	}
	return m, nil
}

// readMark reads the mark of this life of the machine; found is false where there is none.
func (l *recordLog) readMark() (m mark, found bool, err error) {
	path := filepath.Join(l.dir, markName)
	data, found, err := readAll(l.fs, path)
	if err != nil || !found {
		return m, false, err
	}
	m, err = parseMark(data)
	// What a power cut has left of it says nothing, and need not be whole.
	if err != nil || !m.Kept && (l.s.set.Boot == "" || m.Boot != bootOf(l.s.set.Boot)) {
		return mark{}, false, nil
	}
	return m, true, nil
}

// openMark makes the file, or keeps what it says, and leaves it open for release. It does not go through Pebble's file
// system: an error comes back, so that the callers that wait can be refused.
func (l *recordLog) openMark() error {
	path, disk := filepath.Join(l.dir, markName), l.s.set.FS
	if _, err := disk.Stat(path); errors.Is(err, fs.ErrNotExist) {
		f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, markSize))
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := syncDir(disk, l.dir); err != nil {
			return err
		}
	}
	f, err := disk.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l.mark, l.marked = f, mark{Boot: bootOf(l.s.set.Boot), Store: l.own.ID, Epoch: l.own.Epoch}
	if l.s.set.Renew {
		l.marked.Boot = bootOf(unrenewed)
	}
	if err := l.release(l.last); err != nil {
		return err
	}
	return f.Sync() // a mark that a stop has synced counts in every life of the machine, until this
}

// release says that answers up to a commit may leave. The sequencer's alone.
func (l *recordLog) release(commit uint64) error {
	l.marked.Synced, l.marked.Released = commit, commit
	l.marked.put(l.markBuf[:], l.own.Salt)
	if _, err := l.mark.WriteAt(l.markBuf[:], 0); err != nil {
		return err
	}
	l.s.gate.release(commit)
	return nil
}

// unrenewed stands in the mark in place of a life of the machine, while a store is open whose log nobody has found
// whole yet. If the store is closed before that, or the process ends, no later start takes this mark for its own.
const unrenewed = "not renewed"

// renewMark makes the mark one of this life of the machine: somebody has checked the log.
type renewMark struct{}

func (renewMark) apply(tx *tx) error {
	l := &tx.s.records
	l.marked.Boot = bootOf(tx.s.set.Boot)
	return l.release(l.last)
}

// keepMark makes the mark be on disk: the store is closed, and what lies behind it nobody was given. It needs no room.
func (l *recordLog) keepMark() error {
	if l.marked.Boot == bootOf(unrenewed) {
		return nil
	}
	l.marked.Kept = true
	l.marked.put(l.markBuf[:], l.own.Salt)
	if _, err := l.mark.WriteAt(l.markBuf[:], 0); err != nil {
		return err
	}
	return l.mark.Sync()
}

// show lets everybody see what is on disk, once the mark says so: a start cuts off what lies behind it. It reports
// whether the store still works; if not, whoever waits for the batch is refused.
func (q *sequencer) show(batch []*ticket) bool {
	if len(q.unseen) == 0 {
		return true
	}
	if err := q.s.records.release(q.number); err != nil {
		q.mu.Lock()
		q.flying = batch
		q.mu.Unlock()
		q.s.fatal(fmt.Errorf("mark what is on disk: %w", err))
		return false
	}
	q.s.records.add(q.unseen, q.tree)
	clear(q.unseen)
	q.unseen = q.unseen[:0]
	q.size.Store(q.tree.Size())
	return true
}
