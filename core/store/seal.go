package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// mostWALs is how many write-ahead logs that Pebble needs no more may wait for being sealed: a store that is started
// often and writes little makes no segment each time.
const mostWALs = 8

// oldWAL is a write-ahead log that Pebble needs no more. It goes once all commits up to through are sealed.
type oldWAL struct {
	path    string
	through uint64
	ours    bool // it was written since the start
}

// archived is the directory that Pebble's ArchiveCleaner moves files to that it needs no more. Nothing is ever there:
// see disk.Rename. Pebble writes over no old log as long as that cleaner is set, and takes no other one from outside.
const archived = "archive"

// retire takes a file that Pebble needs no more. A write-ahead log still holds records: it is moved aside, and goes
// once they are sealed. Everything else is deleted. Until the store was seen to be whole nothing is touched: what
// Pebble takes for old in a damaged directory may be what a person repairs it with. Pebble finds it again at the next
// start.
func (l *recordLog) retire(path string) error {
	l.mu.Lock()
	if !l.whole {
		l.retired = append(l.retired, path)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	if filepath.Ext(path) != ".log" {
		return l.fs.Remove(path)
	}
	return l.keep(path)
}

// takeRetired deals with what Pebble needed no more while the store was read, and is whole.
func (l *recordLog) takeRetired() error {
	l.mu.Lock()
	paths := l.retired
	l.retired, l.whole = nil, true
	l.mu.Unlock()
	for _, path := range paths {
		if err := l.retire(path); err != nil {
			return err
		}
	}
	return nil
}

// keep moves a write-ahead log to where the sealer finds it. It is there before it has gone from where it was.
func (l *recordLog) keep(path string) error {
	dir := l.wals()
	to := filepath.Join(dir, filepath.Base(path))
	if err := l.s.set.FS.Link(path, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(l.fs, dir); err != nil {
		return err
	}
	if err := l.fs.Remove(path); err != nil {
		return err
	}
	newest := l.s.gate.newest() // l.last is behind it for a moment, and the file may hold it
	l.mu.Lock()
	defer l.mu.Unlock()
	l.old = append(l.old, oldWAL{to, newest, true})
	l.nudge()
	return nil
}

func (l *recordLog) wals() string { return filepath.Join(l.dir, "wal") }

// ahead is where Pebble's write-ahead logs are.
func (l *recordLog) ahead() string { return filepath.Join(l.s.set.Dir, "db", walDir) }

func syncDir(fs vfs.FS, name string) error {
	dir, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load reads what there is: the list, the segments' indexes, and the commits that only write-ahead logs have. Pebble is
// open, and has moved no write-ahead log yet.
func (l *recordLog) load() error {
	if err := l.fs.MkdirAll(l.wals(), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{l.dir, filepath.Dir(l.dir)} { // what is put into a directory that is lost is lost too
		if err := syncDir(l.fs, dir); err != nil {
			return err
		}
	}
	var err error
	if l.list, err = segment.OpenList(files{l.fs}, l.dir, l.own); err != nil {
		return err
	}
	l.tree = &log.Tree{}
	for _, info := range l.list.Infos() {
		r, err := segment.Open(files{l.fs}, l.dir, ofCommit(l.s.past, l.own, info.FirstCommit), info)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("records %d to %d are missing: the log's list names %s, and that file is not there",
				info.FirstSeq, info.NextSeq-1, filepath.Join(l.dir, segment.Name(info.FirstCommit)))
		}
		if err != nil {
			return err
		}
		l.sealed = append(l.sealed, r)
		l.tree, l.last = r.End(), r.LastCommit
	}
	edge := l.tree.Copy()
	for _, dir := range []string{l.wals(), l.ahead()} {
		logs, err := wal.Scan(wal.Dir{FS: l.fs, Dirname: dir})
		if err != nil {
			return err
		}
		for _, one := range logs {
			if err := l.replay(one, edge); err != nil {
				return err
			}
			if dir == l.wals() {
				_, path := one.SegmentLocation(0)
				l.old = append(l.old, oldWAL{path, l.last, false})
			}
		}
	}
	l.s.seq.tree = edge
	l.edge.Set(edge)
	return nil
}

// sealedTo is the newest commit that is sealed.
func (l *recordLog) sealedTo() uint64 {
	if n := len(l.sealed); n > 0 {
		return l.sealed[n-1].LastCommit
	}
	return 0
}

// replay takes the commits of one write-ahead log. Where its end is not whole nothing behind that was ever on disk:
// Pebble, which has read it before, decides whether that may be.
func (l *recordLog) replay(one wal.LogicalLog, edge *log.Tree) error {
	_, path := one.SegmentLocation(0)
	err := eachFrame(one, func(frame []byte) error {
		c, err := log.ParseFrame(frame, l.own.Salt)
		switch {
		case err != nil:
			return err
		case c.Number <= l.last:
			return nil // sealed, or in a copy of this file
		case c.Number != l.last+1:
			return fmt.Errorf("commits %d to %d are missing in front of commit %d: no write-ahead log has them, and %s names "+
				"segments up to commit %d; put the directory back from where it was saved", l.last+1, c.Number-1, c.Number,
				filepath.Join(l.dir, segment.ListName), l.sealedTo())
		}
		if err := c.AddTo(edge); err != nil {
			return err
		}
		l.young, l.last = append(l.young, &c), c.Number
		l.bytes += len(c.Records) + len(c.Hashes)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// run seals until quit.
func (l *recordLog) run() {
	defer close(l.done)
	for {
		select {
		case <-l.wake:
		case <-l.quit:
			return
		case <-l.s.seq.dead:
			return
		}
		if err := l.seal(); err != nil {
			l.s.fatal(fmt.Errorf("seal the log: %w", err))
			return
		}
	}
}

// seal seals what is in memory when there is enough of it, lets Pebble begin a new write-ahead log, and removes what is
// needed no more.
func (l *recordLog) seal() error {
	l.sealing.Lock()
	defer l.sealing.Unlock()
	l.mu.RLock()
	young, bytes, many := l.young, l.bytes, len(l.old)
	l.mu.RUnlock()
	if (bytes >= l.s.set.SealBytes || many > mostWALs && len(young) > 0) && l.s.room.sealable(bytes) {
		if err := l.sealAll(young); err != nil {
			return err
		}
		// the write-ahead log still has what is sealed now: Pebble begins another, and gives this one up
		if err := l.s.flush(); err != nil {
			return err
		}
	}
	if err := l.dropWALs(); err != nil {
		return err
	}
	if l.spares.wanted(bytes) {
		l.spares.fill(l.s.set.Log)
	}
	return l.dropSegments()
}

func (l *recordLog) sealAll(young []*log.Commit) error {
	info, err := segment.Write(files{l.fs}, l.dir, l.own, l.tree, young)
	if err != nil {
		return err
	}
	if err := l.list.Sealed(info); err != nil {
		return err
	}
	defer l.hasRoom()
	r, err := segment.Open(files{l.fs}, l.dir, l.own, info)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = append(l.sealed[:len(l.sealed):len(l.sealed)], r)
	l.young = append([]*log.Commit(nil), l.young[len(young):]...)
	l.bytes = 0
	for _, c := range l.young {
		l.bytes += len(c.Records) + len(c.Hashes)
	}
	return nil
}

// dropWALs removes write-ahead logs whose records are all sealed.
func (l *recordLog) dropWALs() error {
	l.mu.Lock()
	through := l.sealedTo()
	var gone []oldWAL
	for len(l.old) > 0 && l.old[0].through <= through {
		gone = append(gone, l.old[0])
		l.old = l.old[1:]
	}
	l.mu.Unlock()
	for _, old := range gone {
		kept, err := old.ours, error(nil)
		if kept {
			kept, err = l.spares.put(old.path)
		}
		if err == nil && !kept {
			err = l.fs.Remove(old.path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// show lets segments go that a trim has left nothing of, as far as answers have left: what was refused and landed may
// be cut off by the next start.
func (l *recordLog) show(kept uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept != l.shown {
		l.shown = kept
		l.s.tidier.nudge()
	}
}

// dropSegments removes the segments whose records retention has all removed, and of which no row is left.
func (l *recordLog) dropSegments() error {
	l.mu.RLock()
	kept := min(l.shown, l.tidy)
	l.mu.RUnlock()
	for {
		infos := l.list.Infos()
		if len(infos) < 2 || infos[0].NextSeq > kept {
			return nil
		}
		l.mu.Lock()
		l.sealed = l.sealed[1:]
		l.mu.Unlock()
		if err := l.list.Remove(); err != nil {
			return err
		}
	}
}

// start begins to seal what comes.
func (l *recordLog) start() {
	l.nudge()
	go l.run()
}

// close waits until nothing is being sealed. void says that there are commits that the next start has to cut off,
// whatever life of the machine that is in.
func (l *recordLog) close(void bool) (err error) {
	close(l.quit)
	<-l.done
	l.sealing.Lock()
	l.ended = true
	l.sealing.Unlock()
	if void && l.s.seq.broken() == nil {
		err = l.keepMark()
	}
	_ = l.mark.Close() // nothing is lost with it
	return err
}

// flush has Pebble begin another write-ahead log, and write what it has in memory.
func (s *Store) flush() error {
	if s.set.onFlush != nil {
		s.set.onFlush(true)
		defer s.set.onFlush(false)
	}
	_, err := s.db.AsyncFlush()
	return err
}
