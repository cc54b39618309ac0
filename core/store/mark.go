package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

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
}

const (
	markName  = "mark"
	markMagic = "yettmrk1"
	markSize  = 256
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
	b[44] = byte(copy(b[45:markSize-4], m.Store))
	binary.BigEndian.PutUint32(b[markSize-4:], salt.Sum(b[:markSize-4]))
}

func parseMark(b []byte) (m mark, err error) {
	if len(b) != markSize || string(b[:8]) != markMagic || int(b[44]) > markSize-4-45 {
		return m, errors.New("it is no mark")
	}
	m.Boot = [16]byte(b[8:])
	m.Synced, m.Released = binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:])
	m.Epoch, m.Store = binary.BigEndian.Uint32(b[40:]), string(b[45:45+int(b[44])])
	if m.salt().Sum(b[:markSize-4]) != binary.BigEndian.Uint32(b[markSize-4:]) {
		return m, errors.New("it has a wrong checksum")
	}
	return m, nil
}

// readMark reads the mark of this life of the machine; found is false where there is none.
func (l *recordLog) readMark() (m mark, found bool, err error) {
	path := filepath.Join(l.dir, markName)
	f, err := l.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return m, false, err
	}
	m, err = parseMark(data)
	// What a power cut has left of it says nothing, and need not be whole.
	if err != nil || l.s.set.Boot == "" || m.Boot != bootOf(l.s.set.Boot) {
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
	return l.release(l.last)
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

// residue is what of the log nobody was given.
type residue struct{ commits []log.Commit }

// mostCut is how many commits a start cuts off at most: a batch, and the few behind it that were to take it back.
const mostCut = 64

// cut takes off what landed and was not released in this life of the machine, before Pebble reads it: only write-ahead
// logs hold it, see tableGate. The newest is cut first, so that a start that ends meanwhile leaves no hole. Nothing is
// cut that log/head knows of: that was released, and the mark is of an earlier time.
func (l *recordLog) cut() (*residue, error) {
	m, found, err := l.readMark()
	if err != nil || !found {
		return nil, err
	}
	if !l.s.set.Renew {
		h, found, err := l.s.head.read()
		if err != nil {
			return nil, err
		}
		if found && h.Commit > m.Released {
			return nil, fmt.Errorf("%s is that of an earlier time than %s: put the directory back from where it was saved; if "+
				"the server was stopped in good order, the first file can be removed", filepath.Join(l.dir, markName),
				l.s.head.path)
		}
	}
	if _, err := l.fs.Stat(l.ahead()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // load says what is missing
	}
	logs, err := wal.Scan(wal.Dir{FS: l.fs, Dirname: l.ahead()})
	if err != nil {
		return nil, err
	}
	r, at := &residue{}, make([]int64, len(logs))
	for i, one := range logs {
		if at[i], err = r.find(one, m); err != nil {
			return nil, err
		}
	}
	if n := len(r.commits); n > mostCut {
		return nil, fmt.Errorf("%s says that the answers to the newest %d commits have not left, which cannot be: put the "+
			"directory back from where it was saved", filepath.Join(l.dir, markName), n)
	}
	for i, one := range slices.Backward(logs) {
		if at[i] == nothing {
			continue
		}
		_, path := one.SegmentLocation(0)
		if err := l.shorten(path, at[i]); err != nil {
			return nil, fmt.Errorf("cut %s at %d: %w", path, at[i], err)
		}
	}
	return r, nil
}

// nothing is where a write-ahead log is cut that holds nothing to cut off.
const nothing = -1

// find reads a write-ahead log, and gives where the first batch begins that is not released.
func (r *residue) find(one wal.LogicalLog, m mark) (at int64, err error) {
	in := one.OpenForRead()
	defer func() { err = errors.Join(err, in.Close()) }()
	for at = nothing; ; {
		rec, off, err := in.NextRecord()
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return at, nil
		}
		if err != nil {
			return 0, err
		}
		repr, err := io.ReadAll(rec)
		if err != nil {
			return 0, err
		}
		err = framesOf(batchrepr.Read(repr), func(frame []byte) error {
			c, err := log.ParseFrame(frame, m.salt())
			if err != nil || c.Number <= m.Released {
				return err
			}
			if at == nothing {
				at = off.Physical
			}
			r.commits = append(r.commits, c)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
}

// shorten leaves the first bytes of a file.
func (l *recordLog) shorten(path string, size int64) error {
	f, err := l.fs.Open(path)
	if err != nil {
		return err
	}
	data := make([]byte, size)
	_, err = io.ReadFull(f, data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	out, err := l.fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := l.fs.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(l.fs, filepath.Dir(path))
}

// taken is what a record of the residue says of something that was taken away.
type taken struct {
	Type      string `json:"type"`
	Scope     string `json:"scope"`
	Target    string `json:"target"`
	Reason    string `json:"reason"`
	Name      string `json:"name"`
	KeyID     string `json:"key_id"`
	GrantID   string `json:"grant_id"`
	Principal string `json:"principal_id"`
	Method    string `json:"principal_method"`
	Surface   string `json:"surface"`
	Peer      string `json:"peer"`
}

// again gives the commands of what was cut that take something away: a kill, a revoke. They stand, whatever their
// callers were told. A key that was rolled is revoked as a part of that, which is undone as a whole.
func (r *residue) again() (out []Command, err error) {
	if r == nil {
		return nil, nil
	}
	var all []taken
	rolled := map[string]bool{}
	for _, c := range r.commits {
		err := c.Each(func(seq uint64, rec []byte) error {
			var x taken
			if err := json.Unmarshal(rec, &x); err != nil {
				return fmt.Errorf("record %d, which was cut off: %w", seq, err)
			}
			rolled[x.Name] = rolled[x.Name] || x.Type == "key_created"
			all = append(all, x)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, x := range all {
		by := Who{Principal: x.Principal, Method: x.Method, Surface: x.Surface, Peer: x.Peer}
		switch {
		case x.Type == "kill":
			kill := Kill{Scope: x.Scope, Target: x.Target, Reason: x.Reason, By: x.Principal}
			out = append(out, &KillSwitch{Kill: kill, By: by})
		case x.Type == "key_revoked" && !rolled[x.Name]:
			out = append(out, &RevokeKey{ID: x.KeyID, By: by})
		case x.Type == "grant_revoked":
			out = append(out, &RevokeGrant{ID: x.GrantID, By: by})
		}
	}
	return out, nil
}
