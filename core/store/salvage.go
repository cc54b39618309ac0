package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// Salvaged says what of a damaged log was read, and what was not.
type Salvaged struct {
	Records uint64  `json:"records"`
	Saved   []Saved `json:"saved"`
	Lost    []Loss  `json:"lost"`    // records
	Damaged []Loss  `json:"damaged"` // files; what of them cannot be read may be in another one
}

// Saved is a file of records without a gap, one a line.
type Saved struct {
	File     string `json:"file"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
}

// Loss is what cannot be read. A seq of 0 is not known.
type Loss struct {
	File     string `json:"file,omitempty"`
	FirstSeq uint64 `json:"first_seq,omitempty"`
	LastSeq  uint64 `json:"last_seq,omitempty"`
	Why      string `json:"why"`
}

// SalvageReport is the file that says what Salvage has found.
const SalvageReport = "report.json"

// Salvage copies what can be read of the log in set.Dir to the new directory out: the records, files that are damaged,
// and a report. It needs neither the database nor the secrets, and changes nothing in set.Dir. Checksums say what can
// be read; nothing proves that the records are those that were signed.
func Salvage(set Settings, out string) (*Salvaged, error) {
	if set.FS == nil {
		set.FS = vfs.Default
	}
	v := &salvage{from: readOnly{unlocked{set.FS}}, to: set.FS, dir: set.Dir, out: out, next: 1,
		done: Salvaged{Saved: []Saved{}, Lost: []Loss{}, Damaged: []Loss{}}}
	err := v.run()
	if v.file != nil {
		err = errors.Join(err, v.endFile())
	}
	if err == nil {
		err = v.report()
	}
	if err != nil {
		return nil, fmt.Errorf("salvage %s: %w", set.Dir, err)
	}
	return &v.done, nil
}

type salvage struct {
	from, to vfs.FS
	dir, out string
	stores   []segment.Store // that any file names
	next     uint64          // the first record that was not seen yet
	any      bool            // one was
	file     vfs.File        // that is being written
	buf      bytes.Buffer
	done     Salvaged
}

func (v *salvage) run() error {
	if names, err := v.to.List(v.out); err == nil && len(names) > 0 {
		return fmt.Errorf("%s is there, and not empty: give a new directory", v.out)
	}
	if err := v.to.MkdirAll(filepath.Join(v.out, "damaged"), 0o700); err != nil {
		return err
	}
	names, err := v.from.List(dirOf(v.dir))
	if err != nil {
		return err
	}
	slices.Sort(names)
	var segments []string
	for _, name := range names {
		if strings.HasSuffix(name, ".seg") {
			segments = append(segments, filepath.Join(dirOf(v.dir), name))
		}
	}
	if err := v.findStores(segments); err != nil {
		return err
	}
	for _, path := range segments {
		if err := v.segment(path); err != nil {
			return err
		}
	}
	for _, dir := range []string{filepath.Join(dirOf(v.dir), "wal"), filepath.Join(v.dir, "db", walDir)} {
		if err := v.logs(dir); err != nil {
			return err
		}
	}
	return v.end()
}

// findStores reads whose log it is: from each segment, and from log/head and log/mark.
func (v *salvage) findStores(segments []string) error {
	add := func(s segment.Store) {
		if s.ID != "" && !slices.Contains(v.stores, s) {
			v.stores = append(v.stores, s)
		}
	}
	for _, path := range segments {
		data, _, err := readAll(v.from, path)
		if err != nil {
			continue // it is read again, and told then
		}
		if s, ok := segment.HeadOf(data); ok {
			add(s)
		}
	}
	if h, ok := v.head(); ok {
		add(storeOf(h.Store, h.Epoch))
	}
	if data, found, err := readAll(v.from, filepath.Join(dirOf(v.dir), markName)); err == nil && found {
		if m, err := parseMark(data); err == nil {
			add(storeOf(m.Store, m.Epoch))
		}
	}
	if len(v.stores) == 0 {
		return errors.New("no file of the log names its store, so nothing can be read")
	}
	return nil
}

// head reads log/head without the secret: it only tells what may be missing.
func (v *salvage) head() (h head, found bool) {
	data, _, err := readAll(v.from, filepath.Join(dirOf(v.dir), headName))
	if err != nil {
		return h, false
	}
	for at := 0; at+headSize <= len(data); at += headPlace {
		b := data[at : at+headSize]
		if m := string(b[:8]); m != headMagic && m != headFirst || int(b[80]) > headSize-32-81 {
			continue
		}
		if n := binary.BigEndian.Uint64(b[8:]); !found || n > h.Writes {
			h = head{Writes: n, Epoch: binary.BigEndian.Uint32(b[24:]), Size: binary.BigEndian.Uint64(b[40:]),
				Store: string(b[81 : 81+int(b[80])])}
			found = true
		}
	}
	return h, found
}

func (v *salvage) segment(path string) error {
	data, _, err := readAll(v.from, path)
	if err != nil {
		v.damage(path, segment.Lost{Why: err.Error()})
		return nil
	}
	lost, err := segment.Salvage(data, v.stores, v.commit)
	if err != nil {
		return err
	}
	for _, l := range lost {
		v.damage(path, l)
	}
	if len(lost) == 0 {
		return nil
	}
	return (&recordLog{fs: v.to}).put(filepath.Join(v.out, "damaged", filepath.Base(path)), data)
}

func (v *salvage) damage(path string, l segment.Lost) {
	v.done.Damaged = append(v.done.Damaged, Loss{path, l.First, l.Last, l.Why})
}

// logs reads the write-ahead logs of a directory. Each ends in front of the first batch that is not whole. If that is
// damage, and not the end, the records behind it are missing, and are told when all was read.
func (v *salvage) logs(dir string) error {
	logs, err := wal.Scan(wal.Dir{FS: v.from, Dirname: dir})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, one := range logs {
		_, path := one.SegmentLocation(0)
		var failed error
		err := eachFrame(one, func(frame []byte) error {
			c, err := v.parse(frame)
			if err != nil {
				v.damage(path, segment.Lost{Why: err.Error()})
				return nil
			}
			failed = v.commit(&c)
			return failed
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			v.damage(path, segment.Lost{Why: err.Error()})
		}
	}
	return nil
}

func (v *salvage) parse(frame []byte) (c log.Commit, err error) {
	for _, s := range v.stores {
		if c, err = log.ParseFrame(frame, s.Salt); err == nil {
			return c, nil
		}
	}
	return c, err
}

// commit takes a commit that can be read. What was seen before is passed over.
func (v *salvage) commit(c *log.Commit) error {
	return c.Each(func(seq uint64, rec []byte) error {
		if v.any && seq < v.next {
			return nil
		}
		if v.any && seq > v.next {
			v.lose(v.next, seq-1)
		}
		if v.file == nil || seq != v.next {
			if err := v.begin(seq); err != nil {
				return err
			}
		}
		v.any, v.next = true, seq+1
		v.done.Records++
		v.done.Saved[len(v.done.Saved)-1].LastSeq = seq
		v.buf.Write(rec)
		v.buf.WriteByte('\n')
		if v.buf.Len() < 1<<20 {
			return nil
		}
		return v.flush()
	})
}

// lose says that records are missing, and in which files they were, as far as that is known.
func (v *salvage) lose(first, last uint64) {
	l := Loss{FirstSeq: first, LastSeq: last, Why: "no file has them"}
	for _, d := range v.done.Damaged {
		if d.FirstSeq != 0 && d.FirstSeq <= last && (d.LastSeq == 0 || d.LastSeq >= first) {
			l.File, l.Why = d.File, d.Why
		}
	}
	v.done.Lost = append(v.done.Lost, l)
}

func (v *salvage) begin(seq uint64) error {
	if err := v.endFile(); err != nil {
		return err
	}
	name := fmt.Sprintf("records-%020d.jsonl", seq)
	f, err := v.to.Create(filepath.Join(v.out, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	v.file, v.done.Saved = f, append(v.done.Saved, Saved{File: name, FirstSeq: seq})
	return nil
}

func (v *salvage) flush() error {
	_, err := v.file.Write(v.buf.Bytes())
	v.buf.Reset()
	return err
}

func (v *salvage) endFile() error {
	if v.file == nil {
		return nil
	}
	err := errors.Join(v.flush(), v.file.Sync(), v.file.Close())
	v.file = nil
	return err
}

// end tells of records at the end that only log/head knows of, and at the beginning.
func (v *salvage) end() error {
	if h, ok := v.head(); ok && h.Size >= v.next && (v.any || h.Size > 0) {
		v.lose(v.next, h.Size)
	}
	if infos, err := segment.ReadList(files{v.from}, dirOf(v.dir), v.stores[len(v.stores)-1]); err == nil &&
		len(infos) > 0 && len(v.done.Saved) > 0 && infos[0].FirstSeq < v.done.Saved[0].FirstSeq {
		v.lose(infos[0].FirstSeq, v.done.Saved[0].FirstSeq-1)
	}
	return nil
}

func (v *salvage) report() error {
	data, err := json.MarshalIndent(&v.done, "", " ")
	if err != nil {
		return err
	}
	return (&recordLog{fs: v.to}).put(filepath.Join(v.out, SalvageReport), append(data, '\n'))
}
