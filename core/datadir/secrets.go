package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/yett-dev/yett/core/regular"
)

// CheckSecrets refuses a store whose secrets are gone: a new pepper would make every key invalid without a word, and a
// new signing key would make every checkpoint a stranger's.
func CheckSecrets(dir string) error {
	if rows, err := os.ReadDir(filepath.Join(dir, "db")); err != nil || len(rows) == 0 {
		return nil // a new store makes its own
	}
	for _, name := range []string{"pepper", "audit.key"} {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has a store but no %s: put the file back from where it was saved, or start on an empty "+
				"directory", dir, name)
		}
	}
	return nil
}

// maxSecretFile is the most that is read of a file of random bytes, bytes.
const maxSecretFile = 4 << 10

// Secret reads a file of n random bytes, making it (mode 0600) when it is not there. It refuses one that others may
// read.
func Secret(path string, n int) ([]byte, error) {
	b, err := regular.Read(path, maxSecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		b = make([]byte, n)
		_, _ = rand.Read(b) // never fails: it ends the process instead
		return b, writeWhole(path, b)
	}
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s is readable by others (mode %#o, want 0600)", path, st.Mode().Perm())
	case len(b) != n:
		return nil, fmt.Errorf("%s is %d bytes long, want %d", path, len(b), n)
	}
	return b, nil
}

// WriteSecret makes a file of random bytes that are known. It refuses to write over one.
func WriteSecret(path string, secret []byte) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there already", path))
	}
	return writeWhole(path, secret)
}

// writeWhole makes a file (mode 0600) that is there whole or not at all, after a crash too.
func writeWhole(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes new names in a directory survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
