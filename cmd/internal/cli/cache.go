package cli

import (
	"errors"
	"os"
	"path/filepath"
)

// ModuleCache is the user's directory for compiled modules, "" where there is none that can be written: some
// containers' users have no home, and modules are compiled each time there.
func ModuleCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "yett", "modules")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	f, err := os.CreateTemp(dir, "try-")
	if err != nil {
		return ""
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return ""
	}
	return dir
}
