package prochost

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

var errNoMemory = errors.New("no files in memory on this system")

// firstExtra is the descriptor of the first of Command.ExtraFiles in the process.
const firstExtra = 3

// putSecrets makes a file of each secret: one in memory that the process has open, or else one in its private
// directory, which is told: operators who count on it that secrets touch no disk must know.
func (b *birth) putSecrets() error {
	for _, name := range slices.Sorted(maps.Keys(b.s.Secrets)) {
		f, err := memoryFile(b.s.Secrets[name], b.s.User)
		if err == nil {
			b.secrets[name] = fmt.Sprintf("/proc/self/fd/%d", firstExtra+len(b.files))
			b.files = append(b.files, f)
			continue
		}
		if !errors.Is(err, errNoMemory) {
			return fmt.Errorf("secrets: %s: %w", name, err)
		}
		if err := b.putFile(name); err != nil {
			return fmt.Errorf("secrets: %s: %w", name, err)
		}
	}
	if onDisk := len(b.secrets) - len(b.files); onDisk > 0 {
		b.o.Log(b.s.Name, LevelHost, fmt.Sprintf("%d of its secrets lie in %s until it ends: %v", onDisk, b.dir, errNoMemory))
	}
	return nil
}

// putFile is for systems without files in memory.
func (b *birth) putFile(name string) error {
	path := filepath.Join(b.dir, fmt.Sprintf("secret-%d", len(b.secrets)))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(b.s.Secrets[name])
	if u := b.s.User; u != nil && err == nil {
		err = f.Chown(int(u.UID), int(u.GID))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	b.secrets[name] = path
	return nil
}
