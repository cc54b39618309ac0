package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/yett-dev/yett/core/regular"
)

// watchMost is the most that is read of a file, bytes: the largest that a configuration takes is a rules file of that
// size.
const watchMost = 64 << 20

// What stands for the content of a file that has none to be read.
const (
	gone  = "gone"
	other = "not to be read"
)

// tried is what a reload was tried with, for the files that there are now: what it read of each, or what it held
// before. A file that changes during a reload is a change still to be tried, and so is one that came then.
func tried(before, read, now map[string]string) map[string]string {
	out := map[string]string{}
	for name, is := range now {
		sum, known := read[name]
		was, there := before[name]
		switch {
		case sum != "":
			out[name] = sum
		case there:
			out[name] = was
		case known:
			out[name] = is
		default:
			out[name] = gone
		}
	}
	return out
}

// seen remembers what files have held: unless a file's date or size changed, its content is not read again.
type seen map[string]seenFile

type seenFile struct{ stat, sum string }

// look gives the content of files as a SHA-256 in hex by name.
func (e seen) look(names []string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		st, err := os.Stat(name)
		switch {
		case err != nil:
			out[name] = gone
			continue
		case !st.Mode().IsRegular():
			out[name] = other
			continue
		}
		stat := fmt.Sprintf("%d %d", st.Size(), st.ModTime().UnixNano())
		if e[name].stat != stat {
			e[name] = seenFile{stat, sumOf(name)}
		}
		out[name] = e[name].sum
	}
	return out
}

func sumOf(name string) string {
	f, _, err := regular.Open(name)
	if err != nil {
		return other
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, watchMost)); err != nil {
		return other
	}
	return hex.EncodeToString(hash.Sum(nil))
}
