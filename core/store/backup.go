package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// A backup is the store as it was at one commit: Pebble's tables without a write-ahead log, the sealed segments, and
// one more segment with the records that only write-ahead logs had. It is made beside the store, of links, while the
// sealer waits; then it is read at leisure. Its manifest comes last, so that one that was broken off is none.
const (
	ManifestName = "backup.json"
	BackupFormat = "yett-backup/1"
	asideName    = "backup.tmp" // in the data directory, while a backup is made
)

// Manifest says what a backup is, and of which bytes.
type Manifest struct {
	Format     string       `json:"format"`
	Layout     string       `json:"layout"`
	StoreID    string       `json:"store_id"`
	Epoch      uint32       `json:"epoch"`
	Commit     uint64       `json:"commit"`
	FromSeq    uint64       `json:"from_seq"` // the first record that retention had left
	Seq        uint64       `json:"seq"`      // the last record
	Root       string       `json:"root"`     // of the tree then, base64
	Checkpoint string       `json:"checkpoint"`
	PublicKey  string       `json:"public_key"` // of the checkpoint
	Time       time.Time    `json:"time"`
	Earlier    []log.Life   `json:"earlier,omitempty"`
	Files      []BackupFile `json:"files"`
}

// BackupFile is one file of a backup.
type BackupFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// BackupOut takes the files of a backup, one by one, the manifest last.
type BackupOut func(name string, bytes int64, data io.Reader) error

var errBusy = errors.New("another backup is being made; wait until it is done")

// Backup gives a backup of the store to out. The store goes on meanwhile: only sealing, the removal of old files and
// other backups wait, and only while links are made. A failure of it does not end the store.
func (s *Store) Backup(signer *log.Signer, out BackupOut) (*Manifest, error) {
	if !s.records.backing.TryLock() {
		return nil, errBusy
	}
	defer s.records.backing.Unlock()
	b := &backup{s: s, fs: s.set.FS, dir: filepath.Join(s.set.Dir, asideName)}
	m, err := b.make(signer, out)
	if err = errors.Join(err, b.fs.RemoveAll(b.dir)); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return m, nil
}

// backup is one backup in the making.
type backup struct {
	s   *Store
	fs  vfs.FS // not Pebble's, in which each failure ends the store
	dir string

	infos    []segment.Info // that are linked
	young    []*log.Commit  // behind them
	front    *log.Tree      // in front of young
	answered uint64         // the newest commit that was released when that began
	released uint64         // the newest commit that was when all was linked

	commit, kept uint64 // of the state
	tree         *log.Tree
}

func (b *backup) db() string  { return filepath.Join(b.dir, "db") }
func (b *backup) log() string { return dirOf(b.dir) }

func (b *backup) make(signer *log.Signer, out BackupOut) (*Manifest, error) {
	bytes, err := b.bytes()
	if err != nil {
		return nil, err
	}
	if err := b.s.room.spare(bytes); err != nil {
		return nil, err
	}
	if err := b.linkable(); err != nil {
		return nil, err
	}
	if err := b.link(); err != nil {
		return nil, err
	}
	if err := b.settleState(); err != nil {
		return nil, err
	}
	if err := b.sealRest(); err != nil {
		return nil, err
	}
	return b.give(signer, out)
}

// bytes is what a backup takes of the disk: copies of the write-ahead logs, the tables that are made of them, and a
// segment. All else is links.
func (b *backup) bytes() (sum uint64, err error) {
	names, err := b.fs.List(b.s.records.ahead())
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		st, err := b.fs.Stat(filepath.Join(b.s.records.ahead(), name))
		if errors.Is(err, fs.ErrNotExist) { // it has gone meanwhile
			continue
		}
		if err != nil {
			return 0, err
		}
		sum += 2 * uint64(st.Size())
	}
	return sum + b.s.room.need(), nil
}

// spare refuses what nobody needs at once and takes so many bytes beside what the store needs.
func (r *room) spare(bytes uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	switch {
	case r.mute:
	case r.level.Load() != ample:
		return errors.New(r.shown.Load().Low)
	case r.free < r.least()+bytes:
		return fmt.Errorf("the disk of the data directory has %d free bytes, and %d have to be: %d that stay free "+
			"(storage.min_free), and %d beside them for a while; remove files from that disk, or enlarge it", r.free,
			r.least()+bytes, r.least(), bytes)
	}
	return nil
}

// linkable refuses a file system without hard links: while all was copied nothing could be sealed, and writers would
// have to wait.
func (b *backup) linkable() error {
	if err := errors.Join(b.fs.RemoveAll(b.dir), b.fs.MkdirAll(b.dir, 0o700)); err != nil {
		return err
	}
	from := filepath.Join(b.dir, "link")
	f, err := b.fs.Create(from, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	if err := b.fs.Link(from, from+"ed"); err != nil {
		return fmt.Errorf("the file system of the data directory has no hard links: stop the server, and copy the whole "+
			"directory (%w)", err)
	}
	return nil
}

// mostLinks is how often the links are made anew, because what the disk had taken late was taken back meanwhile.
const mostLinks = 5

func (b *backup) link() error {
	for range mostLinks {
		if err := b.fs.RemoveAll(b.dir); err != nil {
			return err
		}
		if err := b.fs.MkdirAll(b.log(), 0o700); err != nil {
			return err
		}
		fits, err := b.linkOnce()
		if err != nil || fits {
			return err
		}
	}
	return errors.New("the disk stalls again and again, and no state is seen that was answered: try again later")
}

// linkOnce takes the tables, and the records that go with them, while nothing is sealed. fits is false where the state
// may hold a commit that was refused, without the one that takes it back.
func (b *backup) linkOnce() (fits bool, err error) {
	l := &b.s.records
	l.sealing.Lock()
	defer l.sealing.Unlock()
	if l.ended {
		return false, errors.New("the store is closed")
	}
	l.mu.RLock()
	joint := l.joint
	b.answered = l.last
	l.mu.RUnlock()
	// Without Pebble's WithFlushedWAL, which writes a record of its own to the log: all that counts is synced.
	if err := b.s.guarded(func() error { return b.s.db.Checkpoint(b.db()) }); err != nil {
		return false, err
	}
	l.mu.RLock()
	b.young, b.released, fits = l.young, l.last, joint == l.joint
	l.mu.RUnlock()
	b.infos, b.front = slices.Clone(l.list.Infos()), l.tree.Copy()
	for _, info := range b.infos {
		name := segment.Name(info.FirstCommit)
		if err := b.fs.Link(filepath.Join(l.dir, name), filepath.Join(b.log(), name)); err != nil {
			return false, err
		}
	}
	return fits, nil
}

// sealRest makes a segment of what only write-ahead logs have, up to the state's commit, and the list.
func (b *backup) sealRest() error {
	own := b.s.records.own
	n := 0
	for n < len(b.young) && b.young[n].Number <= b.commit {
		n++
	}
	sealed := uint64(0)
	if k := len(b.infos); k > 0 {
		sealed = b.infos[k-1].LastCommit
	}
	if sealed+uint64(n) != b.commit {
		return fmt.Errorf("its state is of commit %d, its records end with commit %d", b.commit, sealed+uint64(n))
	}
	b.tree = b.front
	if n > 0 {
		info, err := segment.Write(files{b.fs}, b.log(), own, b.tree, b.young[:n])
		if err != nil {
			return err
		}
		b.infos = append(b.infos, info)
	}
	return segment.WriteList(files{b.fs}, b.log(), own, b.infos)
}

// give hands out the files.
func (b *backup) give(signer *log.Signer, out BackupOut) (*Manifest, error) {
	s := b.s
	m := &Manifest{Format: BackupFormat, Layout: layoutVersion, StoreID: s.id, Epoch: s.Epoch(), Commit: b.commit,
		FromSeq: b.kept, Seq: b.tree.Size(), Root: b.tree.Root().String(), PublicKey: signer.PublicKey(),
		Time: s.Now().UTC(), Earlier: s.Earlier()}
	var err error
	if m.Checkpoint, err = signer.Checkpoint(m.Seq, b.tree.Root()); err != nil {
		return nil, err
	}
	names, err := filesBelow(b.fs, b.dir, "")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := s.room.spare(0); err != nil { // it may be the same disk that the backup is written to
			return nil, err
		}
		f, err := b.fs.Open(filepath.Join(b.dir, name))
		if err != nil {
			return nil, err
		}
		one, err := giveFile(name, f, out)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		m.Files = append(m.Files, one)
	}
	return m, m.give(out)
}

func giveFile(name string, f vfs.File, out BackupOut) (one BackupFile, err error) {
	st, err := f.Stat()
	if err != nil {
		return one, err
	}
	sum := sha256.New()
	err = out(name, st.Size(), io.TeeReader(io.LimitReader(f, st.Size()), sum))
	return BackupFile{Name: name, Bytes: st.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// filesBelow lists the files of a directory and of those in it, sorted, without Pebble's locks.
func filesBelow(disk vfs.FS, dir, below string) (out []string, err error) {
	names, err := disk.List(filepath.Join(dir, below))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(below, name)
		st, err := disk.Stat(filepath.Join(dir, path))
		switch {
		case err != nil:
			return nil, err
		case st.IsDir():
			more, err := filesBelow(disk, dir, path)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		case name != "LOCK":
			out = append(out, path)
		}
	}
	return out, nil
}

// MaxManifest bounds a manifest, in bytes: some 200 000 files.
const MaxManifest = 32 << 20

// ParseManifest reads a manifest, and refuses one that names files outside of the backup.
func ParseManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", ManifestName, err)
	}
	switch {
	case m.Format != BackupFormat:
		return nil, fmt.Errorf("%s: format is %q, expected %q: use the version of yett that made it", ManifestName, m.Format,
			BackupFormat)
	case m.Layout != layoutVersion:
		return nil, fmt.Errorf("%s: layout is %q, expected %q: use the version of yett that made it", ManifestName, m.Layout,
			layoutVersion)
	case m.StoreID == "" || m.Epoch == 0:
		return nil, fmt.Errorf("%s: store_id and epoch are missing", ManifestName)
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if !InBackup(f.Name) || seen[f.Name] || f.Bytes < 0 {
			return nil, fmt.Errorf("%s: %q is no file of a backup, or is there twice", ManifestName, f.Name)
		}
		seen[f.Name] = true
	}
	return m, nil
}

// InBackup reports whether a backup may have a file of that name: below db or log, and in no place that a name could
// lead to from there.
func InBackup(name string) bool {
	dir, _, found := strings.Cut(name, "/")
	return found && (dir == "db" || dir == "log") && filepath.IsLocal(name) && filepath.Clean(name) == name
}

func (m *Manifest) own() segment.Store { return storeOf(m.StoreID, m.Epoch) }

func (m *Manifest) give(out BackupOut) error {
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	return out(ManifestName, int64(len(data)), bytes.NewReader(data))
}
