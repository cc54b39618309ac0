package strict

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
)

// Files lists every file that was read, in the order of reading. A change of any of them is a change of what was read.
func (l *Loader) Files() []string { return slices.Clone(l.files) }

// Digests gives what each of these files held when it was read, by path, as a SHA-256 in hex: "" where it could not be
// read.
func (l *Loader) Digests() map[string]string { return maps.Clone(l.digests) }

// Read gives the bytes of a file of at most most bytes, and notes that it was read. Its errors name the file.
func (l *Loader) Read(path string, most int64) ([]byte, error) {
	if data, ok := l.src.Files[path]; ok {
		return data, nil
	}
	if !slices.Contains(l.files, path) {
		l.files = append(l.files, path)
	}
	data, err := ReadFile(path, most)
	l.digests[path] = ""
	if err == nil {
		sum := sha256.Sum256(data)
		l.digests[path] = hex.EncodeToString(sum[:])
	}
	return data, err
}

// ReadFile reads a regular file of at most most bytes; a pipe or a device could block or never end.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // what is checked is what is read
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, unwrapped(err))
	}
	defer f.Close()
	var data []byte
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("is not a regular file")
	case info.Size() > most:
	default:
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if err == nil && (info.Size() > most || int64(len(data)) > most) {
		err = fmt.Errorf("is larger than %s", Size(most))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, unwrapped(err))
	}
	return data, nil
}

// unwrapped drops the path from a file error, since the message around it has it.
func unwrapped(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
