package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// Write makes a segment of commits, which follow each other and are on disk, in dir. tree is the tree in front of them.
// When it returns the file is there under its name and synced; the list does not name it yet.
func Write(fs FS, dir string, store Store, tree *log.Tree, commits []*log.Commit) (Info, error) {
	if len(commits) == 0 {
		return Info{}, errors.New("a segment of no commits")
	}
	first, last := commits[0], commits[len(commits)-1]
	info := Info{FirstCommit: first.Number, LastCommit: last.Number, FirstSeq: first.First, NextSeq: last.Next()}
	data, err := encode(store, tree, commits, &info)
	if err != nil {
		return Info{}, fmt.Errorf("seal commits %d to %d: %w", first.Number, last.Number, err)
	}
	info.Bytes, info.Digest = uint64(len(data)), sha256.Sum256(data)
	path := filepath.Join(dir, Name(first.Number))
	if err := replace(fs, dir, path, data); err != nil {
		return Info{}, fmt.Errorf("seal commits %d to %d: %w", first.Number, last.Number, err)
	}
	return info, nil
}

// replace writes a file beside and renames it.
func replace(fs FS, dir, path string, data []byte) error {
	f, err := fs.Create(path + ".tmp")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+".tmp", path); err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

func encode(store Store, tree *log.Tree, commits []*log.Commit, info *Info) ([]byte, error) {
	first := commits[0]
	h := head{Format, store.ID, store.Epoch, first.Number, first.First, peakTexts(tree.Peaks())}
	out, err := h.line()
	if err != nil {
		return nil, err
	}
	headSize := len(out)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	be := binary.BigEndian
	var rows []row
	var block, hashes []byte
	flush := func() {
		r := &rows[len(rows)-1]
		r.at = uint64(len(out))
		out = enc.EncodeAll(block, out)
		r.size = uint32(uint64(len(out)) - r.at)
		r.sum = store.Salt.Sum(out[r.at:])
		block = block[:0]
	}
	for _, c := range commits {
		if err := c.AddTo(tree); err != nil {
			return nil, err
		}
		if len(block) > 0 && len(block)+len(c.Records) > blockMost {
			flush()
		}
		if len(block) == 0 {
			rows = append(rows, row{firstCommit: c.Number, firstSeq: c.First})
		}
		r := &rows[len(rows)-1]
		r.commits++
		r.records += uint32(c.Count)
		r.raw += uint64(len(c.Records))
		info.Raw += uint64(len(c.Records))
		block = be.AppendUint32(be.AppendUint32(block, uint32(c.Count)), uint32(len(c.Records)))
		block = append(block, c.Records...)
		hashes = append(hashes, c.Hashes...)
	}
	flush()
	hashesAt := len(out)
	out = append(out, hashes...)
	indexAt := len(out)
	for _, r := range rows {
		out = r.append(out)
	}
	for from := 0; from < len(hashes); from += hashChunk {
		out = be.AppendUint32(out, store.Salt.Sum(hashes[from:min(from+hashChunk, len(hashes))]))
	}
	for _, p := range tree.Peaks() {
		out = append(out, p[:]...)
	}
	tail := be.AppendUint32(nil, uint32(headSize))
	tail = be.AppendUint32(tail, store.Salt.Sum(out[:headSize]))
	tail = be.AppendUint64(tail, uint64(hashesAt))
	tail = be.AppendUint64(tail, uint64(indexAt))
	tail = be.AppendUint32(tail, uint32(len(rows)))
	tail = be.AppendUint32(tail, store.Salt.Sum(out[indexAt:]))
	tail = be.AppendUint64(tail, info.LastCommit)
	tail = append(tail, magic...)
	tail = be.AppendUint32(tail, 0)
	return append(append(out, tail...), be.AppendUint32(nil, store.Salt.Sum(tail))...), nil
}

func (r *row) append(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, r.at)
	dst = be.AppendUint32(dst, r.size)
	dst = be.AppendUint32(dst, r.sum)
	dst = be.AppendUint64(dst, r.firstCommit)
	dst = be.AppendUint64(dst, r.firstSeq)
	dst = be.AppendUint32(dst, r.commits)
	dst = be.AppendUint32(dst, r.records)
	return be.AppendUint64(dst, r.raw)
}

func parseRow(b []byte) row {
	be := binary.BigEndian
	return row{be.Uint64(b), be.Uint32(b[8:]), be.Uint32(b[12:]), be.Uint64(b[16:]), be.Uint64(b[24:]), be.Uint32(b[32:]),
		be.Uint32(b[36:]), be.Uint64(b[40:])}
}

// hashCount is how many hashes the records from seq up to next have stored.
func hashCount(seq, next uint64) int64 { return log.StoredHashes(next-1) - log.StoredHashes(seq-1) }

const hashSize = tlog.HashSize
