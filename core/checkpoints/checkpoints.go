// Package checkpoints owns signed checkpoints that leave the data directory: it writes them to files, and holds the log
// against them at a start. Whoever puts the whole data directory back to an earlier time, or another log in its place,
// can only be seen there. It must never write a checkpoint of records that log/head does not know of yet, and never
// take a file that it cannot read for one that agrees.
package checkpoints

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/regular"
)

// Log is what is checkpointed.
type Log interface {
	// InHead brings log/head up to date, and is how many records it knows of: a start notices when they are missing.
	InHead() uint64
	// Seq is how many records there are, First the seq of the oldest that is still there.
	Seq() uint64
	First() uint64
	// Root is the root of the tree over the records up to size.
	Root(size uint64) ([32]byte, error)
}

// Settings are what Check and Start need. All are required.
type Settings struct {
	Files  []string
	Every  time.Duration
	Log    Log
	Signer *log.Signer
	Origin string
	Report func(format string, args ...any) // a file that cannot be written, and that it can again
}

// tail is how much of the end of a file is read: far more than one checkpoint takes, with the lines of witnesses.
const tail = 64 << 10

// Check holds the log against the newest checkpoint of each file. An error says that the log is not the one that was
// signed, or ends earlier, or that a file cannot be read. A file that is not there yet, and one without a checkpoint of
// this log, are told of.
func Check(set Settings) error {
	keys, err := log.ParseKeys(set.Signer.PublicKey())
	if err != nil {
		return err
	}
	for _, path := range set.Files {
		c, err := newest(path, keys, set.Origin)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			set.Report("audit.checkpoints: %s is not there: the log is not held against it, and it is made", path)
		case err != nil:
			return fmt.Errorf("audit.checkpoints: %w", err)
		case c == nil:
			set.Report("audit.checkpoints: %s has no checkpoint of this log (%s): the log is not held against it", path,
				set.Origin)
		default:
			if err := agrees(set.Log, c); err != nil {
				return fmt.Errorf("audit.checkpoints: %s: %w", path, err)
			}
		}
	}
	return nil
}

// newest is the last checkpoint of that origin in a file; nil if it has none.
func newest(path string, keys log.Keys, origin string) (*log.Checkpoint, error) {
	data, err := readEnd(path)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	texts, err := log.SplitCheckpoints(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := len(texts) - 1; i >= 0; i-- {
		c, err := log.OpenCheckpoint(texts[i], keys)
		if err == nil && c.Origin == origin {
			return &c, nil
		} // else it was cut while it was written, or is of a log before a restore
	}
	return nil, nil
}

func readEnd(path string) (data []byte, err error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data = make([]byte, min(st.Size(), tail))
	n, err := f.ReadAt(data, st.Size()-int64(len(data)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// agrees holds the log against a checkpoint.
func agrees(l Log, c *log.Checkpoint) error {
	switch {
	case c.Size > l.Seq():
		return fmt.Errorf("it was signed when the log had %d records, and now it has %d: its end is missing, or the data "+
			"directory is that of an earlier time; put the newest one back, or, if the records are lost for good, take the "+
			"file out of audit.checkpoints.files and keep it", c.Size, l.Seq())
	case c.Size+1 < l.First():
		return nil // retention has removed what would show it
	}
	root, err := l.Root(c.Size)
	if err != nil {
		return err
	}
	if tlog.Hash(root) != c.Root {
		return fmt.Errorf("the first %d records are not those that were signed: the log is another one; put the right data "+
			"directory back", c.Size)
	}
	return nil
}

// Keeper writes checkpoints. Its methods are safe for concurrent use.
type Keeper struct {
	set  Settings
	quit chan struct{}
	done chan struct{}

	add  func(path, text string) error
	late func() <-chan time.Time // when a write is taken for one that will not end

	mu     sync.Mutex
	failed map[string]error // files that could not be written when it was tried last
	hang   map[string]bool  // files that are being written
	size   uint64           // of the newest checkpoint that every file has
}

// patience is how long a write of a checkpoint may last. A file system that hangs holds up neither the other files nor
// the stop of the server.
const patience = 5 * time.Second

var errHangs = fmt.Errorf("a write to it has not ended within %v", patience)

func newKeeper(set Settings) *Keeper {
	return &Keeper{set: set, quit: make(chan struct{}), done: make(chan struct{}), add: add,
		late:   func() <-chan time.Time { return time.After(patience) },
		failed: map[string]error{}, hang: map[string]bool{}}
}

// Start begins to write to the files: one checkpoint at once if there are records, then one each time that so much has
// passed and there are more, and one at Close. The log was checked before.
func Start(set Settings) *Keeper {
	k := newKeeper(set)
	go k.run()
	return k
}

func (k *Keeper) run() {
	defer close(k.done)
	if len(k.set.Files) == 0 {
		return
	}
	tick := time.NewTicker(k.set.Every)
	defer tick.Stop()
	for {
		k.write()
		select {
		case <-tick.C:
		case <-k.quit:
			k.write()
			return
		}
	}
}

// Close writes what is to be written, and ends. It waits no longer for a write than patience.
func (k *Keeper) Close() {
	close(k.quit)
	<-k.done
}

// Failing names the files that could not be written when it was tried last. A nil Keeper has none.
func (k *Keeper) Failing() map[string]error {
	out := map[string]error{}
	if k == nil {
		return out
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for path, err := range k.failed {
		out[path] = err
	}
	return out
}

// Size is how many records the newest checkpoint covers that every file has.
func (k *Keeper) Size() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.size
}

func (k *Keeper) write() {
	size := k.set.Log.InHead()
	failing := len(k.Failing()) > 0
	if size == 0 || size == k.Size() && !failing {
		return
	}
	root, err := k.set.Log.Root(size)
	text := ""
	if err == nil {
		text, err = k.set.Signer.Checkpoint(size, root)
	}
	all := err == nil
	for _, path := range k.set.Files {
		one := err
		if one == nil {
			one = k.put(path, text)
		}
		k.note(path, one)
		all = all && one == nil
	}
	if all {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.size = size
	}
}

// put adds a checkpoint to a file. Where an earlier one is still being written it adds none.
func (k *Keeper) put(path, text string) error {
	k.mu.Lock()
	if k.hang[path] {
		k.mu.Unlock()
		return errHangs
	}
	k.hang[path] = true
	k.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := k.add(path, text)
		k.mu.Lock()
		delete(k.hang, path)
		k.mu.Unlock()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-k.late():
		return errHangs
	}
}

func (k *Keeper) note(path string, err error) {
	k.mu.Lock()
	was := k.failed[path]
	delete(k.failed, path)
	if err != nil {
		k.failed[path] = err
	}
	k.mu.Unlock()
	switch {
	case err != nil && was == nil:
		k.set.Report("audit.checkpoints: %s cannot be written: %v", path, err)
	case err == nil && was != nil:
		k.set.Report("audit.checkpoints: %s can be written again", path)
	}
}

// add appends a checkpoint to a file, and makes the file where there is none. It only ever appends, so that the file
// may be one that nobody can shorten. What an earlier write has left half done is ended by an empty line.
func add(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: regular.ErrKind}
	}
	if end := make([]byte, min(st.Size(), 2)); len(end) > 0 {
		if _, err := f.ReadAt(end, st.Size()-int64(len(end))); err != nil {
			return err
		}
		if string(end) != "\n\n" {
			text = "\n\n" + text
		}
	}
	if _, err = f.WriteString(text + "\n"); err != nil {
		return err
	}
	return f.Sync()
}
