package segment

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"strings"
)

// ListName is the file that says which segments there are. It only grows: a line for each segment that was sealed, and
// one for each that has gone.
const ListName = "segments"

// List is the segments of a directory, as they were written and removed. It is one goroutine's.
type List struct {
	fs    FS
	dir   string
	store Store
	infos []Info
	size  int64 // of the lines that count
}

// OpenList reads the list of a directory, and makes both when they are not there. A last line that was cut, or whose
// first block was never written, is what a power cut leaves: it does not count, and is cut off. If it was whole once,
// commits are missing, and who reads the log says so.
func OpenList(fs FS, dir string, store Store) (*List, error) {
	l := &List{fs: fs, dir: dir, store: store}
	if err := fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := l.parse(); err != nil {
		return nil, err
	}
	return l, l.rewrite()
}

// parse reads the lines that count.
func (l *List) parse() error {
	data, err := l.read()
	if err != nil {
		return err
	}
	whole := data[:strings.LastIndexByte(data, '\n')+1]
	n := 0
	for line := range strings.Lines(whole) {
		n++
		if l.size+int64(len(line)) == int64(len(whole)) && line[0] == 0 {
			break // the last one, and the block in which it begins was never written
		}
		if err := l.line(strings.TrimSuffix(line, "\n")); err != nil {
			return damaged(filepath.Join(l.dir, ListName), "line %d: %v", n, err)
		}
		l.size += int64(len(line))
	}
	return nil
}

// rewrite makes the list anew, of what there is. What was read may be in the machine's memory only: a process that was
// killed between a line and its sync leaves that. From here on it is on disk.
func (l *List) rewrite() error {
	var all []byte
	for i := range l.infos {
		all = l.appendLine(all, sealedLine(&l.infos[i]))
	}
	l.size = int64(len(all))
	return replace(l.fs, l.dir, filepath.Join(l.dir, ListName), all)
}

func sealedLine(i *Info) string {
	return fmt.Sprintf("sealed %d %d %d %d %d %d %x", i.FirstCommit, i.LastCommit, i.FirstSeq, i.NextSeq, i.Bytes, i.Raw,
		i.Digest)
}

func (l *List) appendLine(to []byte, text string) []byte {
	return fmt.Appendf(to, "%s %08x\n", text, l.store.Salt.Sum([]byte(text)))
}

func (l *List) read() (string, error) {
	path := filepath.Join(l.dir, ListName)
	f, err := l.fs.Open(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", l.mayBegin(path)
	}
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(f)
	return string(data), errors.Join(err, f.Close())
}

// mayBegin refuses to make a first list where segments are: theirs is missing.
func (l *List) mayBegin(path string) error {
	names, err := l.fs.List(l.dir)
	for _, name := range names {
		if strings.HasSuffix(name, ".seg") {
			return fmt.Errorf("%s is missing, and %s is there: put the directory back from where it was saved", path,
				filepath.Join(l.dir, name))
		}
	}
	return err
}

// Sweep removes what a crash has left: files that are not whole, segments that the list does not name, and those that
// were to go. Only who knows that the log is whole without them may call it.
func (l *List) Sweep() error {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range l.infos {
		known[Name(l.infos[i].FirstCommit)] = true
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".seg") && !known[name] {
			if err := l.fs.Remove(filepath.Join(l.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *List) line(line string) error {
	at := strings.LastIndexByte(line, ' ')
	if at < 0 || fmt.Sprintf("%08x", l.store.Salt.Sum([]byte(line[:at]))) != line[at+1:] {
		return errors.New("a wrong checksum")
	}
	var i Info
	var digest string
	switch word, rest, _ := strings.Cut(line[:at], " "); word {
	case "sealed":
		_, err := fmt.Sscanf(rest, "%d %d %d %d %d %d %s", &i.FirstCommit, &i.LastCommit, &i.FirstSeq, &i.NextSeq, &i.Bytes,
			&i.Raw, &digest)
		if err != nil {
			return err
		}
		sum, err := hex.DecodeString(digest)
		if err != nil || len(sum) != len(i.Digest) {
			return fmt.Errorf("%q is no digest", digest)
		}
		i.Digest = [32]byte(sum)
		if n := len(l.infos); n > 0 && (l.infos[n-1].LastCommit+1 != i.FirstCommit || l.infos[n-1].NextSeq != i.FirstSeq) {
			return fmt.Errorf("commit %d and record %d do not follow on what is in front of them", i.FirstCommit, i.FirstSeq)
		}
		l.infos = append(l.infos, i)
	case "removed":
		if _, err := fmt.Sscanf(rest, "%d", &i.FirstCommit); err != nil {
			return err
		}
		if len(l.infos) < 2 || l.infos[0].FirstCommit != i.FirstCommit {
			return fmt.Errorf("the segment of commit %d is removed, and is not the first of several", i.FirstCommit)
		}
		l.infos = l.infos[1:]
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

// Infos are the segments that there are, oldest first.
func (l *List) Infos() []Info { return l.infos }

// Sealed adds a segment that is there and synced.
func (l *List) Sealed(i Info) error {
	err := l.append(sealedLine(&i))
	if err == nil {
		l.infos = append(l.infos, i)
	}
	return err
}

// Remove takes the oldest segment off the list, and then its file. The last one stays: it says where the log goes on.
func (l *List) Remove() error {
	if len(l.infos) < 2 {
		return errors.New("the last segment stays")
	}
	i := l.infos[0]
	if err := l.append(fmt.Sprintf("removed %d", i.FirstCommit)); err != nil {
		return err
	}
	l.infos = l.infos[1:]
	if err := l.fs.Remove(filepath.Join(l.dir, Name(i.FirstCommit))); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// append writes one line, so that it is on disk when append returns.
func (l *List) append(text string) error {
	f, err := l.fs.OpenReadWrite(filepath.Join(l.dir, ListName))
	if err != nil {
		return err
	}
	n, err := f.WriteAt(l.appendLine(nil, text), l.size)
	if err == nil {
		err = f.Sync()
	}
	l.size += int64(n)
	return errors.Join(err, f.Close())
}
