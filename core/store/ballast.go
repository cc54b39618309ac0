package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ballast are files that hold nothing: when the disk is full they go, one by one, and what must be written has their
// room. In pieces, since another program that fills the disk takes what becomes free as well. Their bytes cannot be
// compressed, nor are they those of another store's ballast, so that they take up room on every disk.
type ballast struct {
	fs   vfs.FS
	dir  string
	say  func(format string, args ...any)
	have []piece
	next int // number of the next piece
}

type piece struct {
	path string
	size uint64
}

const (
	ballastName   = "ballast-"
	ballastTemp   = "ballast.tmp" // the sweep of the log's directory removes it too
	ballastPieces = 16
	ballastTicks  = 5        // two pieces a second at most: it does not hold up what else is synced
	ballastPart   = 64 << 10 // bytes of a write
	pageSize      = 4096
)

// find takes what an earlier process has left.
func (b *ballast) find() error {
	names, err := b.fs.List(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path, n := filepath.Join(b.dir, name), 0
		if _, err := fmt.Sscanf(name, ballastName+"%d", &n); err != nil || name != fmt.Sprint(ballastName, n) {
			continue
		}
		st, err := b.fs.Stat(path)
		if err != nil {
			return err
		}
		b.have = append(b.have, piece{path, uint64(st.Size())})
		b.next = max(b.next, n+1)
	}
	return nil
}

func (b *ballast) size() (sum uint64) {
	for _, p := range b.have {
		sum += p.size
	}
	return sum
}

// drop lets one piece go, and reports whether there was one.
func (b *ballast) drop() bool {
	n := len(b.have)
	if n == 0 {
		return false
	}
	p := b.have[n-1]
	b.have = b.have[:n-1]
	err := b.fs.Remove(p.path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = syncDir(b.fs, b.dir) // some file systems give the room back only then
	}
	if err != nil {
		b.say("store: %s, whose room is needed, could not be removed: %v", p.path, err)
	} else {
		b.say("store: removed %s: its %d bytes are needed for what must be written", p.path, p.size)
	}
	return true
}

// fill adds a piece of ballast, where there is room for it beside all that has to be free.
func (r *room) fill() {
	b := &r.ballast
	r.mu.Lock()
	want := min(uint64(max(r.s.set.Ballast, 0)), r.total/8)
	size := (want/ballastPieces + pageSize - 1) / pageSize * pageSize
	free := r.free
	ok := size > 0 && r.problem == nil && r.level.Load() == ample && b.size()+size/2 < want && free >= r.enough()+size
	p := piece{filepath.Join(b.dir, fmt.Sprint(ballastName, b.next)), size}
	r.mu.Unlock()
	if !ok {
		return
	}
	err := b.make(p, r.s.id, r.quit)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, errStopped):
	case err != nil:
		b.say("store: %s could not be made: %v", p.path, err)
	default:
		b.have, b.next = append(b.have, p), b.next+1
		r.look()
	}
}

var errStopped = errors.New("the store is being closed")

// make makes a piece, which is on disk when it returns nil; else nothing of it is left.
func (b *ballast) make(p piece, store string, quit <-chan struct{}) error {
	temp := filepath.Join(b.dir, ballastTemp)
	out, err := b.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = b.write(out, p, store, quit)
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil {
		err = b.fs.Rename(temp, p.path)
	}
	if err != nil {
		return errors.Join(err, b.fs.Remove(temp))
	}
	return syncDir(b.fs, b.dir)
}

func (b *ballast) write(out vfs.File, p piece, store string, quit <-chan struct{}) error {
	seed := sha256.Sum256([]byte(strings.Join([]string{"yett ballast 1", store, filepath.Base(p.path)}, "\x00")))
	block, err := aes.NewCipher(seed[:])
	if err != nil {
		return err
	}
	stream, part := cipher.NewCTR(block, make([]byte, aes.BlockSize)), make([]byte, ballastPart)
	for left := p.size; left > 0; {
		select {
		case <-quit:
			return errStopped
		default:
		}
		n := min(left, ballastPart)
		stream.XORKeyStream(part[:n], part[:n]) // over what was written: it stays random
		if _, err := out.Write(part[:n]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}
