package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

// faultDisk is the real file system until operation number at. There it fails as how says.
type faultDisk struct {
	osDisk
	at, ops int
	run     int  // that many operations fail, then all is well; 0: none ever works again (the process died)
	keep    int  // of the bytes that were not synced when the process died, in percent
	dead    bool // the machine is gone
	files   []*faultFile
	inodes  map[string]*inode // by path
}

var errDead = errors.New("the process is dead")

// step is asked before each operation. A nil error lets it happen.
func (d *faultDisk) step() error {
	if d.dead {
		return errDead
	}
	d.ops++
	switch {
	case d.at == 0 || d.ops < d.at:
		return nil
	case d.run == 0:
		d.dead = true
		return errDead
	case d.ops < d.at+d.run:
		return syscall.ENOSPC
	}
	return nil
}

// inode is what really is on the disk of one file. A sync that fails loses what it should have written, whatever the
// system shows and whatever a later sync says: as Linux does.
type inode struct {
	path   string
	synced int64
	lost   [][2]int64
}

// crash leaves of what was not synced what keep says, and zeros of what was lost.
func (d *faultDisk) crash(t *testing.T) {
	for _, n := range d.inodes {
		f, err := os.OpenFile(n.path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if size := info.Size(); size > n.synced {
			err = f.Truncate(n.synced + (size-n.synced)*int64(d.keep)/100)
		}
		for _, l := range n.lost {
			_, werr := f.WriteAt(make([]byte, l[1]-l[0]), l[0])
			err = errors.Join(err, werr)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range d.files {
		_ = f.file.Close()
	}
}

func (d *faultDisk) Open(path string, mode os.FileMode) (file, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.Open(path, mode)
	if err != nil {
		return nil, err
	}
	if d.inodes == nil {
		d.inodes = map[string]*inode{}
	}
	if d.inodes[path] == nil {
		d.inodes[path] = &inode{path: path}
	}
	wrapped := &faultFile{f, d, d.inodes[path]}
	d.files = append(d.files, wrapped)
	return wrapped, nil
}

func (d *faultDisk) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	if err := d.osDisk.Rename(from, to); err != nil {
		return err
	}
	n := d.inodes[from]
	delete(d.inodes, from)
	n.path = to
	d.inodes[to] = n
	return nil
}

func (d *faultDisk) Remove(path string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.osDisk.Remove(path)
}

func (d *faultDisk) SyncDir(dir string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.osDisk.SyncDir(dir)
}

// faultFile stays open until crash, so that what was not synced can be lost then.
type faultFile struct {
	file
	disk  *faultDisk
	inode *inode
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.disk.step(); err != nil {
		n, _ := f.file.Write(p[:len(p)/2]) // a write that fails may have begun
		return n, err
	}
	return f.file.Write(p)
}

func (f *faultFile) Sync() error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := f.disk.step(); err != nil {
		if size > f.inode.synced && !f.disk.dead {
			f.inode.lost = append(f.inode.lost, [2]int64{f.inode.synced, size})
			f.inode.synced = size
		}
		return err
	}
	f.inode.synced = size
	return f.file.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.disk.step(); err != nil {
		return err
	}
	f.inode.synced = min(f.inode.synced, size)
	var lost [][2]int64
	for _, l := range f.inode.lost {
		if l[0] < size {
			lost = append(lost, [2]int64{l[0], min(l[1], size)})
		}
	}
	f.inode.lost = lost
	return f.file.Truncate(size)
}

func (f *faultFile) Close() error { return nil }

const store = "sto_TEST"

func record(seq uint64) plugin.Record {
	pad := strings.Repeat("x", int(seq*97%600))
	return plugin.Record{Seq: seq, JSON: json.RawMessage(fmt.Sprintf(`{"v":1,"seq":%d,"store_id":%q,"type":"decision","pad":%q}`, seq, store, pad)), Leaf: [32]byte{byte(seq)}}
}

func batch(first, last uint64) *plugin.Batch {
	b := &plugin.Batch{StoreID: store, First: first, Last: last, Root: [32]byte{byte(last)}}
	for seq := first; seq <= last; seq++ {
		b.Records = append(b.Records, record(seq))
	}
	return b
}

// open makes a configured sink on a disk, whose clock moves with its waits.
func open(t *testing.T, d disk, path, more string) *sink {
	t.Helper()
	s := newSink()
	s.disk = d
	now := time.Unix(1_800_000_000, 0)
	s.now = func() time.Time { return now }
	s.wait = func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }
	in := plugin.Settings{Config: json.RawMessage(fmt.Sprintf(`{"path": %q%s}`, path, more)),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := s.configure(in); err != nil {
		t.Fatal(err)
	}
	return s
}

// lines are those of all files, the oldest first. Each must be whole.
func lines(t *testing.T, path string) []string {
	t.Helper()
	j := &journal{disk: osDisk{}, path: path}
	files, err := j.rotated()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	read := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 0 && text[len(text)-1] != '\n' {
			t.Fatalf("%s ends in a torn line", name)
		}
		for l := range bytes.Lines(text) {
			out = append(out, strings.TrimSuffix(string(l), "\n"))
		}
	}
	for _, f := range files {
		read(filepath.Join(filepath.Dir(path), f.name))
	}
	read(path)
	return out
}

const total = 30

// deliver is a host: it goes on behind the last acknowledged record until the sink fails for good.
func deliver(s *sink, acked *uint64, tries int) error {
	for *acked < total {
		err := s.consume(context.Background(), batch(*acked+1, min(*acked+7, total)))
		if err == nil {
			*acked = min(*acked+7, total)
			continue
		}
		if tries--; tries < 0 {
			return err
		}
	}
	return nil
}

func wantAll(t *testing.T, path string) {
	t.Helper()
	got := lines(t, path)
	if len(got) != total {
		t.Fatalf("%d lines, want each of the %d records once", len(got), total)
	}
	for i, l := range got {
		if want := string(record(uint64(i + 1)).JSON); l != want {
			t.Fatalf("line %d is %.60s, want %.60s", i+1, l, want)
		}
	}
}

// A process that dies at any operation, and loses what was not synced, leaves each record exactly once after it is
// started anew: acknowledged ones are on disk, the others come again and are told.
func TestKilledAtEveryOperation(t *testing.T) {
	for _, keep := range []int{0, 50, 100} {
		for at := 1; ; at++ {
			dir := t.TempDir()
			path := filepath.Join(dir, "audit.jsonl")
			d := &faultDisk{at: at, keep: keep}
			s := open(t, d, path, `, "max_bytes": 4096, "retry_for": "0s", "completeness": "roots"`)
			acked := uint64(0)
			err := deliver(s, &acked, 0)
			_ = s.close()
			d.crash(t)
			if err == nil && at < 20 {
				t.Fatalf("the workload has %d operations only: it tests nothing", at)
			}
			again := open(t, osDisk{}, path, `, "max_bytes": 4096, "completeness": "roots"`)
			if err := deliver(again, &acked, 0); err != nil {
				t.Fatalf("operation %d, %d %% kept: %v", at, keep, err)
			}
			if err := again.close(); err != nil {
				t.Fatal(err)
			}
			wantAll(t, path)
			wantRoots(t, filepath.Join(dir, "audit.roots.jsonl"))
			if !d.dead {
				break
			}
		}
	}
}

// wantRoots: the ranges of the completeness file join without a hole, whatever batches came twice.
func wantRoots(t *testing.T, path string) {
	t.Helper()
	next := uint64(1)
	for _, l := range lines(t, path) {
		var m marker
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		if m.First > next || m.Last < next {
			t.Fatalf("root of %d to %d, want one that goes on at %d", m.First, m.Last, next)
		}
		next = m.Last + 1
	}
	if next != total+1 {
		t.Fatalf("the roots end at %d", next-1)
	}
}

// A disk that fails for one operation, or for some, gives no acknowledgement, and the sink goes on when it works again.
func TestFailingDisk(t *testing.T) {
	for _, run := range []int{1, 3} {
		for at := 1; ; at++ {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			d := &faultDisk{at: at, run: run}
			s := open(t, d, path, `, "max_bytes": 4096, "retry_for": "0s"`)
			acked := uint64(0)
			if err := deliver(s, &acked, 2*run); err != nil {
				t.Fatalf("operation %d, %d failures: %v", at, run, err)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			d.crash(t) // all is acknowledged, so nothing of it may be lost
			wantAll(t, path)
			if d.ops < at {
				break
			}
		}
	}
}

// A full disk is waited for, up to retry_for.
func TestRetry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	d := &faultDisk{at: 4, run: 12}
	s := open(t, d, path, "")
	if err := s.consume(context.Background(), batch(1, 3)); err != nil {
		t.Fatalf("a disk that is full for a moment: %v", err)
	}
	d.at, d.run = d.ops+1, 1_000_000
	if err := s.consume(context.Background(), batch(4, 5)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a disk that stays full: %v", err)
	}
	d.at = 0 // there is room again
	if err := s.consume(context.Background(), batch(4, 5)); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, path); len(got) != 5 {
		t.Fatalf("%d lines, want 5", len(got))
	}
}
