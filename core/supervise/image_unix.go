//go:build linux || darwin

package supervise

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/pin"
)

// image is a program that nobody can change any more: what is executed is what was hashed.
type image struct {
	name   string   // argv[0]
	file   *os.File // executed through its descriptor; nil: by path
	path   string   //
	remove string   // a private copy's directory
	// begins with #!: the interpreter opens the descriptor again. The interpreter itself is not covered by the digest
	script bool
}

func (i *image) release() {
	if i.file != nil {
		i.file.Close()
	}
	if i.remove != "" {
		RemoveDir(i.remove)
	}
}

// leave hands over what is to be removed when the process has ended.
func (i *image) leave() string {
	defer func() { i.remove = "" }()
	return i.remove
}

// openImage opens the program of a command: our own binary, or a private copy of the file whose bytes have the digest.
func openImage(c *Command) (*image, error) {
	if c.Path == "" {
		return ownImage()
	}
	f, err := os.OpenFile(c.Path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not make us wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", c.Path)
	}
	if info.Size() > MaxImage {
		return nil, fmt.Errorf("%s has %d bytes, at most %d", c.Path, info.Size(), MaxImage)
	}
	i, err := copyImage(f, c.Digest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path, err)
	}
	i.name = c.Path
	return i, nil
}

// pour copies f into w and compares the digest of what it copied.
func pour(w io.Writer, f io.Reader, digest string) (script bool, err error) {
	head := make([]byte, 2)
	hash := sha256.New()
	out := io.MultiWriter(w, hash)
	n, err := io.ReadFull(f, head)
	if err != nil {
		return false, fmt.Errorf("only %d bytes long", n)
	}
	if _, err := out.Write(head); err != nil {
		return false, err
	}
	copied, err := io.Copy(out, io.LimitReader(f, MaxImage))
	if err != nil {
		return false, err
	}
	if copied == MaxImage {
		return false, fmt.Errorf("more than %d bytes", MaxImage)
	}
	if got := pin.Sum(hash); got != digest {
		return false, fmt.Errorf("the digest is %s, expected %s: the file is not the one that was admitted", got, digest)
	}
	return string(head) == "#!", nil
}

// privateCopy keeps the copy in a directory that only we can enter. (Where the child has another user, through its
// descriptor only.)
func privateCopy(f io.Reader, digest string) (*image, error) {
	dir, err := MakeDir("image", nil)
	if err != nil {
		return nil, err
	}
	i := &image{path: filepath.Join(dir, "program"), remove: dir}
	w, err := os.OpenFile(i.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o500)
	if err == nil {
		if i.script, err = pour(w, f, digest); err == nil {
			err = w.Chmod(0o555)
		}
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		i.release()
		return nil, err
	}
	return i, nil
}
